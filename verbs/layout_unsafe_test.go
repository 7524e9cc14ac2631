package verbs

// Unsafe because the test compares where fields lie.

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// TestLayout holds WC, over which ib.WC is laid, against it.
func TestLayout(t *testing.T) {
	ours, theirs := reflect.TypeFor[WC](), reflect.TypeFor[ib.WC]()
	if unsafe.Sizeof(WC{}) != unsafe.Sizeof(ib.WC{}) || unsafe.Alignof(WC{}) != unsafe.Alignof(ib.WC{}) {
		t.Fatalf("%d bytes and %d", ours.Size(), theirs.Size())
	}
	named := map[string]string{"imm": "Imm", "PathBits": "DLIDPathBits"}
	for f := range ours.Fields() {
		name := f.Name
		if n, ok := named[name]; ok {
			name = n
		}
		if name == "_" {
			continue
		}
		g, ok := theirs.FieldByName(name)
		if !ok || f.Offset != g.Offset || f.Type.Kind() != g.Type.Kind() {
			t.Errorf("%s is %v at %d, and %v at %d", f.Name, f.Type, f.Offset, g.Type, g.Offset)
		}
	}
}
