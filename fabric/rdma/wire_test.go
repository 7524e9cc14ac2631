package rdma

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

func sampleHeader() []byte {
	b := make([]byte, headerBytes)
	(&header{seq: 1<<32 - 1, grant: 2, grantSeen: 3, kind: kindCredit, needsCredits: true}).put(b)
	return b
}

func TestHeaderPrefixes(t *testing.T) {
	b := sampleHeader()
	for n := range b {
		if _, err := parseHeader(b[:n]); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if h, err := parseHeader(b); err != nil || h != (header{1<<32 - 1, 2, 3, kindCredit, true}) {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := parseHeader(append(b, 0)); !errors.Is(err, fabric.ErrCorrupt) {
		t.Errorf("a credit update with bytes behind the header: %v", err)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(sampleHeader())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		again := make([]byte, headerBytes)
		if h.put(again); !bytes.Equal(again, b[:headerBytes]) {
			t.Errorf("%x became %x", b[:headerBytes], again)
		}
	})
}
