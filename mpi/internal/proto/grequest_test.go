package proto

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/perf"
)

// TestPromise: it completes once, with what it is fulfilled with, for whoever waits, and when it was let go.
func TestPromise(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	failed := errors.New("failed")
	for _, want := range []error{nil, failed} {
		h := e.StartGrequest()
		if _, done, err := e.Test(h); done || err != nil {
			t.Fatalf("done: %v, %v", done, err)
		}
		if err := e.Cancel(h); err != nil {
			t.Fatal(err)
		}
		waited := make(chan error)
		go func() {
			st, err := e.Wait(h)
			if st != emptyStatus {
				err = errors.Join(err, errors.New("the status is not empty"))
			}
			waited <- err
		}()
		sleepers(e, 1)
		e.CompleteGrequest(h, want)
		if err := <-waited; err != want {
			t.Errorf("got %v, want %v", err, want)
		}
		e.CompleteGrequest(h, failed) // does nothing
		if _, err := e.Wait(h); err != ErrStale {
			t.Errorf("waited for twice: %v", err)
		}
	}
	h := e.StartGrequest()
	if err := e.Free(h); err != nil {
		t.Fatal(err)
	}
	e.CompleteGrequest(h, failed)
	if next := e.StartGrequest(); next.r != h.r || next.gen == h.gen {
		t.Error("a promise that was let go has not ended")
	} else {
		e.CompleteGrequest(next, nil)
	}
}

// TestQuiet waits for what was begun in one context, and for nothing else.
func TestQuiet(t *testing.T) {
	es := open(t, 2, nil, nil)
	each(t, es, func(self int, e *Engine) error {
		other := from(1-self, 1)
		other.Context++
		apart := e.Irecv(other, make([]byte, 1))
		buf := make([]byte, 100)
		recv := e.Irecv(from(1-self, 1), buf)
		if self == 0 {
			sleepers(es[1], 1) // so that it waits
		}
		send, err := e.Isend(to(self, 1-self, 1), make([]byte, len(buf)), Synchronous)
		if err != nil {
			return err
		}
		if err := e.WaitContextIdle(perf.Disconnect, testContext); err != nil {
			return err
		}
		for _, h := range []Handle{recv, send} {
			if done, err := e.PollCompleted(h); !done || err != nil {
				return errors.Join(err, errors.New("it is under way"))
			}
		}
		_, err1 := e.Wait(recv)
		_, err2 := e.Wait(send)
		return errors.Join(err1, err2, e.Cancel(apart))
	})
}
