package verbs

import (
	"reflect"
	"testing"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// TestLayout holds WC and SGE, over which those of package ib are laid, against them.
func TestLayout(t *testing.T) {
	sameLayout[WC, ib.WC](t, map[string]string{"imm": "Imm", "PathBits": "DLIDPathBits"})
	sameLayout[SGE, ib.SGE](t, nil)
}

// sameLayout compares two structs field by field. Some have another name in the second.
func sameLayout[A, B any](t *testing.T, named map[string]string) {
	t.Helper()
	ours, theirs := reflect.TypeFor[A](), reflect.TypeFor[B]()
	if ours.Size() != theirs.Size() || ours.Align() != theirs.Align() {
		t.Fatalf("%v has %d bytes, and %v %d", ours, ours.Size(), theirs, theirs.Size())
	}
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
			t.Errorf("%v.%s is %v at %d, and %v at %d", ours, f.Name, f.Type, f.Offset, g.Type, g.Offset)
		}
	}
}
