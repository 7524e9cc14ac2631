package datatype

import (
	"bytes"
	"testing"
)

// TestNumbers checks that Numbers is what Type.Buffer returns, for each kind, and that the kind of the
// elements is known also if there are none.
func TestNumbers(t *testing.T) {
	for k := Kind(1); k < Kinds; k++ {
		for n := range 3 {
			mem := make([]byte, n*k.Size())
			for i := range mem {
				mem[i] = byte(i + 1)
			}
			got := Numbers(mem, k)
			want, err := OfKind(k).Buffer(mem, 0, int64(n))
			if err != nil {
				t.Fatal(err)
			}
			b, ok := got.Contiguous()
			if !ok || !bytes.Equal(b, mem) || got.Size() != want.Size() || got.Kind() != want.Kind() || got.count != want.count {
				t.Errorf("%d of %v: %v, want %v", n, k, got, want)
			}
			if got.ElementKind() != k || want.ElementKind() != k {
				t.Errorf("%d of %v: the kinds of elements are %v and %v", n, k, got.ElementKind(), want.ElementKind())
			}
		}
	}
	if k := new(Buffer).ElementKind(); k != 0 {
		t.Errorf("the zero Buffer has elements of kind %v", k)
	}
}
