package verbs

import (
	"reflect"
	"testing"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// TestLayout checks that WC, SGE and Receive have the layout of those in package ib.
func TestLayout(t *testing.T) {
	sameLayout[WC, ib.WC](t, map[string]string{"imm": "Imm", "PathBits": "DLIDPathBits"})
	sameLayout[SGE, ib.SGE](t, nil)
	sameLayout[Receive, ib.RecvWR](t, nil)
}

// sameLayout compares two structs field by field. named contains the fields that have another name in the second struct.
func sameLayout[A, B any](t *testing.T, named map[string]string) {
	t.Helper()
	ours, theirs := reflect.TypeFor[A](), reflect.TypeFor[B]()
	if ours.Size() != theirs.Size() || ours.Align() != theirs.Align() {
		t.Fatalf("%v has %d bytes, %v has %d", ours, ours.Size(), theirs, theirs.Size())
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
			t.Errorf("%v.%s is %v at %d, want %v at %d", ours, f.Name, f.Type, f.Offset, g.Type, g.Offset)
		}
	}
}
