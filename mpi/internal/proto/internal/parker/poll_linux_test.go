package parker

import (
	"os"
	"testing"
)

// TestPollWake: the properties of checkWake hold for a descriptor.
func TestPollWake(t *testing.T) {
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	checkWake(t, p)
}

// TestPollReadable: Park returns while the descriptor is readable, without Wake.
func TestPollReadable(t *testing.T) {
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Park(int(r.Fd()), 0); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []interface{ Close() error }{p, r, w} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
