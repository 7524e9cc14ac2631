package auto

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

var sampleTag = controlTag([32]byte{1, 31: 2})

// TestControlPrefixes: a prefix is malformed, unless it ends behind the kind.
func TestControlPrefixes(t *testing.T) {
	b := appendControl(nil, sampleTag, controlPropose, []byte("address"))
	for n := range b {
		if _, _, err := parseControl(b[:n], sampleTag); n <= tagBytes && !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if kind, addr, err := parseControl(b, sampleTag); kind != controlPropose || string(addr) != "address" || err != nil {
		t.Errorf("%d, %q, %v", kind, addr, err)
	}
	if _, _, err := parseControl(b, controlTag([32]byte{3})); err == nil {
		t.Error("a message of another job was accepted")
	}
}

func FuzzControl(f *testing.F) {
	f.Add(appendControl(nil, sampleTag, controlAsk, appendAddress(nil, "tcp", []byte("address"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, addr, err := parseControl(b, sampleTag)
		if err == nil && !bytes.Equal(appendControl(nil, sampleTag, kind, addr), b) {
			t.Errorf("%x became %d, %x", b, kind, addr)
		}
	})
}
