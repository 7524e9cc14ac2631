package perfmem

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/perf"
)

// packed returns the compressed page of rank 3 of 8.
func packed(t testing.TB) []byte {
	t.Helper()
	memory := make([]byte, perf.PageBytes)
	if none, err := packPage(memory); none != nil || err != nil {
		t.Fatalf("a page that was never written has %d bytes, %v", len(none), err)
	}
	r, err := perf.NewRecorder(memory, perf.Identity{Rank: 3, Size: 8}, perf.All)
	if err != nil {
		t.Fatal(err)
	}
	r.End(perf.Send, 8, r.Begin(perf.Send, 8))
	b, err := packPage(memory)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPagePrefixes: a page is decoded as it was packed, and every strict prefix is an error.
func TestPagePrefixes(t *testing.T) {
	b := packed(t)
	s, err := DecodePage(b)
	if err != nil || s.Rank != 3 || len(s.Ops) != 1 || s.Ops[0].Latency.Count() != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	if len(b) > perf.PageBytes/20 {
		t.Errorf("a page of one operation is packed into %d bytes", len(b))
	}
	for n := range b {
		if _, err := DecodePage(b[:n]); err == nil {
			t.Fatalf("%d bytes of %d were accepted as a page", n, len(b))
		}
	}
	memory := make([]byte, perf.PageBytes+8)
	memory[0] = 1
	long, err := packPage(memory)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodePage(long); err == nil || errors.Is(err, perf.ErrCorrupt) {
		t.Errorf("a page that is too long: %v", err)
	}
	memory = memory[:perf.PageBytes]
	broken, err := packPage(memory)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodePage(broken); !errors.Is(err, perf.ErrCorrupt) {
		t.Errorf("a damaged page: %v", err)
	}
}

// FuzzPage: decoding any bytes returns either a snapshot or an error.
func FuzzPage(f *testing.F) {
	f.Add([]byte{})
	f.Add(packed(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := DecodePage(b); (s == nil) == (err == nil) {
			t.Errorf("%v, %v", s, err)
		}
	})
}
