package auto

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

var sampleTag = controlTag([32]byte{1, 31: 2})

// TestControlPrefixes: a prefix is malformed, unless it ends in the address.
func TestControlPrefixes(t *testing.T) {
	b := (&control{controlPropose, 2, []byte("address")}).append(nil, sampleTag)
	for n := range b {
		if _, err := parseControl(b[:n], sampleTag); n < tagBytes+2 && !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if c, err := parseControl(b, sampleTag); c.kind != controlPropose || c.given != 2 || string(c.addr) != "address" || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := parseControl(b, controlTag([32]byte{3})); err == nil {
		t.Error("a message of another job was accepted")
	}
}

func FuzzControl(f *testing.F) {
	f.Add((&control{controlAsk, 0, appendAddress(nil, "tcp", []byte("address"))}).append(nil, sampleTag))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseControl(b, sampleTag)
		if err == nil && !bytes.Equal(c.append(nil, sampleTag), b) {
			t.Errorf("%x became %+v", b, c)
		}
	})
}
