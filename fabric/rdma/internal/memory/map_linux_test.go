package memory

import (
	"bytes"
	"testing"
)

// TestMap: the memory is zero, belongs to the caller alone, and an impossible length is an error.
func TestMap(t *testing.T) {
	a, err := Map(10_000)
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(a)
	b, err := Map(10_000)
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(b)
	if len(a) != 10_000 || !bytes.Equal(a, make([]byte, 10_000)) {
		t.Errorf("%d bytes, or not zero", len(a))
	}
	a[0], a[9_999] = 1, 1
	if !bytes.Equal(b, make([]byte, 10_000)) {
		t.Error("two mappings share memory")
	}
	if _, err := Map(0); err == nil {
		t.Error("no bytes were mapped")
	}
}
