package proto

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/perf"
)

// TestGrequest: a generalized request completes once, with the error of CompleteGrequest, also if
// it has been freed.
func TestGrequest(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	failed := errors.New("failed")
	for _, want := range []error{nil, failed} {
		h := e.Requests().StartGrequest()
		if _, done, err := e.Requests().Test(h); done || err != nil {
			t.Fatalf("done: %v, %v", done, err)
		}
		if err := errors.Join(e.Requests().Cancel(h), e.Requests().Free(h)); !errors.Is(err, ErrState) {
			t.Fatal(err)
		}
		waited := make(chan error)
		go func() {
			st, err := e.Requests().Wait(h)
			if st != emptyStatus {
				err = errors.Join(err, errors.New("the status is not empty"))
			}
			waited <- err
		}()
		awaitSleepers(e, 1)
		e.Requests().CompleteGrequest(h, want)
		if err := <-waited; err != want {
			t.Errorf("got %v, want %v", err, want)
		}
		e.Requests().CompleteGrequest(h, failed) // does nothing
		if _, err := e.Requests().Wait(h); err != ErrStale {
			t.Errorf("waited for twice: %v", err)
		}
	}
	h := e.Requests().StartGrequest()
	if err := e.Requests().Abandon(h); err != nil {
		t.Fatal(err)
	}
	e.Requests().CompleteGrequest(h, failed)
	if next := e.Requests().StartGrequest(); next.r != h.r || next.gen == h.gen {
		t.Error("a freed generalized request has not ended")
	} else {
		e.Requests().CompleteGrequest(next, nil)
	}
}

// TestWaitContextIdle waits for the operations of one context, and for no others.
func TestWaitContextIdle(t *testing.T) {
	es := open(t, 2, nil, nil)
	each(t, es, func(self int, e *Engine) error {
		other := from(1-self, 1)
		other.Context++
		apart := e.Irecv(other, make([]byte, 1))
		buf := make([]byte, 100)
		recv := e.Irecv(from(1-self, 1), buf)
		if self == 0 {
			awaitSleepers(es[1], 1) // so that this rank's WaitIdle blocks
		}
		send, err := e.Isend(to(self, 1-self, 1), make([]byte, len(buf)), Synchronous)
		if err != nil {
			return err
		}
		if err := e.Contexts().WaitIdle(perf.Disconnect, testContext); err != nil {
			return err
		}
		for _, h := range []Handle{recv, send} {
			if done, err := e.Requests().PollCompleted(h); !done || err != nil {
				return errors.Join(err, errors.New("the operation is still in progress"))
			}
		}
		_, err1 := e.Requests().Wait(recv)
		_, err2 := e.Requests().Wait(send)
		return errors.Join(err1, err2, e.Requests().Cancel(apart))
	})
}
