package messages

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

func sampleHeader() []byte {
	b := make([]byte, HeaderBytes)
	(&Header{Seq: 1<<32 - 1, Grant: 2, GrantSeen: 3, Kind: Credit, NeedsCredits: true}).Put(b)
	return b
}

func TestHeaderPrefixes(t *testing.T) {
	b := sampleHeader()
	for n := range b {
		if _, err := ParseHeader(b[:n]); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if h, err := ParseHeader(b); err != nil || h != (Header{1<<32 - 1, 2, 3, Credit, true}) {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := ParseHeader(append(b, 0)); !errors.Is(err, fabric.ErrCorrupt) {
		t.Errorf("a credit update with bytes behind the header: %v", err)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(sampleHeader())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			return
		}
		again := make([]byte, HeaderBytes)
		if h.Put(again); !bytes.Equal(again, b[:HeaderBytes]) {
			t.Errorf("%x became %x", b[:HeaderBytes], again)
		}
	})
}
