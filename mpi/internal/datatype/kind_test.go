package datatype

import "testing"

func TestKinds(t *testing.T) {
	sizes := []int{0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 8, 16, 0, 0}
	for k, want := range sizes {
		if got := Kind(k).Size(); got != want {
			t.Errorf("%v has %d bytes, want %d", Kind(k), got, want)
		}
	}
	if Int32.String() != "int32" || Complex128.String() != "complex128" || Kind(200).String() != "invalid" {
		t.Error("names of kinds are not in the order of kinds")
	}
}
