package proto

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/perf"
)

// pollUntilDone polls all engines until an operation of e has completed, and returns its result.
func pollUntilDone(t *testing.T, es []*Engine, e *Engine, h Handle) (Status, error) {
	t.Helper()
	for !e.Completed(h) {
		for _, x := range es {
			if err := x.Poll(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return e.Requests().Wait(h)
}

// waitingSends are sends that wait for their receiver: their mode and length.
var waitingSends = []struct {
	mode Mode
	size int
}{{Synchronous, 0}, {Synchronous, 100}, {Standard, 200_000}, {Synchronous, 200_000}}

// TestWithdraw cancels sends at each point of their way: what has not been matched matches no
// receive, and ends as cancelled. The rest is received as usual. The messages before and after keep
// their order.
func TestWithdraw(t *testing.T) {
	for name, w := range map[string]variant{"plain": {}, "no reads": {noRead: true}, "shared words": {pairing: true}} {
		for _, s := range waitingSends {
			for matched, match := range map[string]func(t *testing.T, e *Engine, buf []byte) func() Handle{
				"not matched": func(*testing.T, *Engine, []byte) func() Handle { return nil },
				"posted": func(_ *testing.T, e *Engine, buf []byte) func() Handle {
					h := e.Irecv(from(0, 3), buf)
					return func() Handle { return h }
				},
				"taken by a probe": func(t *testing.T, e *Engine, buf []byte) func() Handle {
					var m MatchedMessage
					for ok := false; !ok; {
						var err error
						if m, _, ok, err = e.Probes().MatchedProbe(context.Background(), from(0, 3), false); err != nil {
							t.Fatal(err)
						}
					}
					return func() Handle { return e.Probes().RecvMatched(perf.Mrecv, m, oneBlock(buf), nil) }
				},
			} {
				t.Run(fmt.Sprintf("%s/mode %d/%d bytes/%s", name, s.mode, s.size, matched), func(t *testing.T) {
					es := open(t, 2, w.wrap, nil)
					a, b := es[0], es[1]
					sent, got := slices.Repeat([]byte{7}, s.size), make([]byte, s.size)
					h, err := a.Isend(to(0, 1, 3), sent, s.mode)
					if err != nil {
						t.Fatal(err)
					}
					receive := match(t, b, got)
					for range 10 { // the message arrives
						if err := b.Poll(); err != nil {
							t.Fatal(err)
						}
					}
					next, err := a.Isend(to(0, 1, 3), []byte{9}, Standard)
					if err := errors.Join(err, a.Requests().Cancel(h), a.Requests().Cancel(h)); err != nil {
						t.Fatal(err)
					}
					if receive != nil {
						st, err := pollUntilDone(t, es, b, receive())
						if err != nil || st.Cancelled || st.Bytes != s.size || !slices.Equal(sent, got) {
							t.Errorf("received %+v, %v", st, err)
						}
					}
					st, err := pollUntilDone(t, es, a, h)
					if err != nil || st.Cancelled != (receive == nil) {
						t.Errorf("sent: %+v, %v", st, err)
					}
					if st, err := b.Recv(from(0, 3), got[:min(1, s.size)]); st.Bytes != min(1, s.size) ||
						s.size != 0 && (err != nil || got[0] != 9) {
						t.Errorf("the next message: %+v, %v", st, err)
					}
					if _, err := a.Requests().Wait(next); err != nil {
						t.Error(err)
					}
					if n, m := b.Contexts().QueueLengths(testContext); n+m != 0 || b.unexpected.held != 0 {
						t.Errorf("%d receives and %d messages of %d bytes are left", n, m, b.unexpected.held)
					}
				})
			}
		}
	}
}

// TestWithdrawQueued cancels sends that wait for room, also those that become RTS since the
// receiver has paused the sender. Those that are not cancelled arrive in order.
func TestWithdrawQueued(t *testing.T) {
	const count = 2000
	es := open(t, 2, nil, func(c *Config) { c.UnexpectedLimit = 64 << 10 })
	a, b := es[0], es[1]
	hs := make([]Handle, count)
	for i := range hs {
		buf := make([]byte, 1000)
		binary.LittleEndian.PutUint64(buf, uint64(i))
		var err error
		if hs[i], err = a.Isend(to(0, 1, 1), buf, Mode(i%2)); err != nil { // Standard and Synchronous
			t.Fatal(err)
		}
	}
	var left []uint64
	cancelled := [2]int{}
	for i, h := range hs {
		if i%3 == 0 {
			continue
		}
		if err := a.Requests().Cancel(h); err != nil {
			t.Fatal(err)
		}
	}
	for i, h := range hs {
		if i%3 == 0 {
			left = append(left, uint64(i))
			continue
		}
		st, err := pollUntilDone(t, es, a, h)
		if err != nil {
			t.Fatal(err)
		}
		if st.Cancelled {
			cancelled[i%2]++
		} else {
			left = append(left, uint64(i))
		}
	}
	if cancelled[Standard] == 0 || cancelled[Synchronous] != count/2-count/6 {
		t.Errorf("%d standard and %d synchronous sends were cancelled", cancelled[Standard], cancelled[Synchronous])
	}
	for _, want := range left {
		buf := make([]byte, 1000)
		if _, err := pollUntilDone(t, es, b, b.Irecv(from(0, 1), buf)); err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint64(buf); got != want {
			t.Fatalf("got message %d, want %d", got, want)
		}
	}
	for i := 0; i < count; i += 3 {
		if st, err := pollUntilDone(t, es, a, hs[i]); err != nil || st.Cancelled {
			t.Fatalf("send %d: %+v, %v", i, st, err)
		}
	}
	if n, m := b.Contexts().QueueLengths(testContext); n+m != 0 || b.unexpected.held != 0 {
		t.Errorf("%d receives and %d messages of %d bytes are left", n, m, b.unexpected.held)
	}
}

// TestWithdrawPersistent cancels a persistent send, and starts it again.
func TestWithdrawPersistent(t *testing.T) {
	es := open(t, 2, nil, nil)
	a, b := es[0], es[1]
	h := a.SendInit(to(0, 1, 1), oneBlock([]byte{5}), Synchronous)
	for range 2 {
		if err := errors.Join(a.Start(h), a.Requests().Cancel(h)); err != nil {
			t.Fatal(err)
		}
		if st, err := pollUntilDone(t, es, a, h); err != nil || !st.Cancelled {
			t.Fatalf("%+v, %v", st, err)
		}
	}
	got := []byte{0}
	r := b.Irecv(from(0, 1), got)
	if err := a.Start(h); err != nil {
		t.Fatal(err)
	}
	if st, err := pollUntilDone(t, es, a, h); err != nil || st.Cancelled {
		t.Fatalf("%+v, %v", st, err)
	}
	if _, err := pollUntilDone(t, es, b, r); err != nil || got[0] != 5 {
		t.Errorf("%d, %v", got, err)
	}
	if err := a.Requests().Free(h); err != nil {
		t.Error(err)
	}
}

// TestWithdrawNothing: a request without a message is not withdrawn, also if the request before it
// in the same memory was a send.
func TestWithdrawNothing(t *testing.T) {
	es := open(t, 2, nil, nil)
	a, b := es[0], es[1]
	h, err := a.Isend(to(0, 1, 1), nil, Synchronous)
	if err != nil {
		t.Fatal(err)
	}
	r := b.Irecv(from(0, 1), nil)
	for _, x := range []struct {
		e *Engine
		h Handle
	}{{a, h}, {b, r}} {
		if _, err := pollUntilDone(t, es, x.e, x.h); err != nil {
			t.Fatal(err)
		}
	}
	g := a.Requests().StartGrequestWith(Callbacks{Query: func(*Status) error { return nil }, Free: func() error { return nil },
		Cancel: func(bool) error { return nil }})
	if g.r != h.r {
		t.Fatal("another request is used")
	}
	if err := errors.Join(a.Requests().Cancel(g), a.FlushSends(), b.Poll()); err != nil {
		t.Error(err)
	}
	if a.Completed(g) || g.r.flags&withdrawing != 0 {
		t.Error("it is being withdrawn")
	}
	if err := a.Requests().CompleteGrequest(g, nil); err != nil {
		t.Error(err)
	}
	if st, err := a.Requests().Wait(g); err != nil || st.Cancelled {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestWithdrawFromGone: a send that is cancelled fails if its receiver closes, and ends as
// cancelled if its receiver has ended the context.
func TestWithdrawFromGone(t *testing.T) {
	for _, s := range waitingSends {
		for _, closes := range []bool{true, false} {
			es := open(t, 2, nil, nil)
			a, b := es[0], es[1]
			h, err := a.Isend(to(0, 1, 1), make([]byte, s.size), s.mode)
			if err := errors.Join(err, a.Requests().Cancel(h)); err != nil {
				t.Fatal(err)
			}
			if closes {
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
				if _, err := a.Requests().Wait(h); !errors.Is(err, ErrFailed) {
					t.Errorf("%+v, receiver closed: %v", s, err)
				}
				continue
			}
			b.Contexts().Free(testContext, ErrFreed)
			if st, err := pollUntilDone(t, es, a, h); err != nil || !st.Cancelled {
				t.Errorf("%+v, context ended: %+v, %v", s, st, err)
			}
		}
	}
}
