package proto

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/perf"
)

// TestBetweenFragments does something between two fragments of a message: a receive, one with a
// short buffer, a matched probe with its receive, or the end of the context.
func TestBetweenFragments(t *testing.T) {
	whole := bytes.Repeat([]byte("fragments of a message. "), 2500)
	end := errors.New("end of the context")
	for name, f := range map[string]func(b *Engine, buf []byte) (Handle, error){
		"receive": func(b *Engine, buf []byte) (Handle, error) { return b.Irecv(from(0, 1), buf), nil },
		"truncating receive": func(b *Engine, buf []byte) (Handle, error) {
			return b.Irecv(from(0, 1), buf[:2000]), nil
		},
		"matched probe": func(b *Engine, buf []byte) (Handle, error) {
			m, st, _, err := b.Probes().MatchedProbe(context.Background(), from(0, 1), true)
			if err == nil && st.Bytes != len(whole) {
				t.Errorf("a probe reports %d bytes", st.Bytes)
			}
			return b.Probes().RecvMatched(perf.Imrecv, m, oneBlock(buf), nil), err
		},
		"end": func(b *Engine, buf []byte) (Handle, error) {
			h := b.Irecv(from(0, 2), buf) // without a message
			b.Contexts().End(testContext, end)
			return h, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			es := open(t, 2, variant{fragments: true}.wrap, nil)
			a, b := es[0], es[1]
			s, err := a.Isend(to(0, 1, 1), whole, Standard)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.lockedPollOnce(); err != nil {
				t.Fatal(err)
			}
			if p := b.links.peers[0].frags; p.m == nil || p.received == 0 || p.received >= p.total {
				t.Fatalf("not in the middle of a message: %d of %d bytes", p.received, p.total)
			}
			buf := make([]byte, len(whole))
			r, err := f(b, buf)
			if err != nil {
				t.Fatal(err)
			}
			for !a.Completed(s) || b.links.peers[0].frags.total != 0 {
				if err := errors.Join(a.lockedPollOnce(), b.lockedPollOnce()); err != nil {
					t.Fatal(err)
				}
			}
			st, err := b.Requests().Wait(r)
			switch {
			case name == "end":
				if !errors.Is(err, end) {
					t.Errorf("receive: %v", err)
				}
			case name == "truncating receive":
				if !errors.Is(err, ErrTruncate) || st.Bytes != 2000 || !bytes.Equal(buf[:2000], whole[:2000]) {
					t.Errorf("receive: %+v, %v", st, err)
				}
			case err != nil || st.Bytes != len(whole) || !bytes.Equal(buf, whole):
				t.Errorf("receive: %+v, %v", st, err)
			}
			if b.unexpected.held != 0 {
				t.Errorf("%d bytes are still in use", b.unexpected.held)
			}
		})
	}
}
