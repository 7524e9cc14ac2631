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

// TestHandoverPrefixes: a prefix of MOVE is malformed, unless it ends in the address.
func TestHandoverPrefixes(t *testing.T) {
	b := (&handover{1, 1 << 31, true, []byte("address")}).append(nil)
	for n := range b {
		if _, err := parseHandover(b[:n]); n < handoverBytes && !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if h, err := parseHandover(b); h.received != 1 || h.kept != 1<<31 || !h.noticed || string(h.addr) != "address" || err != nil {
		t.Errorf("%+v, %v", h, err)
	}
	b[8] = 2
	if _, err := parseHandover(b); !errors.Is(err, fabric.ErrCorrupt) {
		t.Error(err)
	}
}

func FuzzHandover(f *testing.F) {
	f.Add((&handover{3, 2, false, appendAddress(nil, "tcp", []byte("address"))}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHandover(b)
		if err == nil && !bytes.Equal(h.append(nil), b) {
			t.Errorf("%x became %+v", b, h)
		}
	})
}
