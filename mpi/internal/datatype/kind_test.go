package datatype

import "testing"

func TestKinds(t *testing.T) {
	sizes := []int{0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 8, 16, 1, 1, 1, 4, 8, 8, 2, 2, 0, 0}
	for k, want := range sizes {
		if got := Kind(k).Size(); got != want {
			t.Errorf("%v has %d bytes, want %d", Kind(k), got, want)
		}
	}
	if Int32.String() != "int32" || Complex128.String() != "complex128" || ULong.String() != "unsigned long" ||
		Kind(200).String() != "invalid" {
		t.Error("names of kinds are not in the order of kinds")
	}
	if Long.ExternalSize() != 4 || WChar.ExternalSize() != 2 || Complex128.ExternalSize() != 16 || Kind(200).ExternalSize() != 0 {
		t.Error("external sizes are not those of the standard")
	}
	for k := Kind(1); k < Kinds; k++ {
		if k.String() == "" || k.Size() == 0 || k.ExternalSize() == 0 || k.Size()%int(kindTable[k].align) != 0 {
			t.Errorf("kind %d has no complete row: %+v", k, kindTable[k])
		}
	}
}
