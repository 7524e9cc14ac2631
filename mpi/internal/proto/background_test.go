package proto

import (
	"errors"
	"testing"
	"time"
)

// TestBackground: schedules complete although the program calls nothing, over variants of the transport. The goroutine ends with
// the last of them.
func TestBackground(t *testing.T) {
	for _, tw := range []variant{{}, {noRead: true}, {pairing: true}, {fragments: true}} {
		es := open(t, 2, tw.wrap, nil)
		each(t, es, func(self int, e *Engine) error {
			var all []*script
			for i, n := range []int{0, 10, 1 << 20, 300} {
				s, _ := passing(self, 2, n, e)
				s.start(e, int32(i))
				all = append(all, s)
			}
			for _, s := range all {
				if err := <-s.ended; err != nil {
					return err
				}
			}
			return nil
		})
		for _, e := range es {
			awaitBackgroundEnd(e)
		}
	}
}

// awaitState returns when f reports true. f is called with the lock of the engine.
func awaitState(e *Engine, f func(b *background) bool) {
	for reached := false; !reached; time.Sleep(10 * time.Microsecond) {
		e.lock()
		reached = f(&e.background)
		e.unlock()
	}
}

// awaitBackground returns when the goroutine in the background polls or sleeps.
func awaitBackground(e *Engine) { awaitState(e, func(b *background) bool { return b.running }) }

// awaitBackgroundEnd returns when that goroutine has ended.
func awaitBackgroundEnd(e *Engine) { awaitState(e, func(b *background) bool { return !b.running }) }

// TestBackgroundLeaves: a call that waits makes progress itself, and the goroutine in the background ends. It starts again when
// the call has ended and a schedule is left.
func TestBackgroundLeaves(t *testing.T) {
	es := open(t, 2, nil, nil)
	e, peer := es[0], es[1]
	for range 50 {
		b := make([]byte, 1)
		s := &script{steps: []scriptStep{recvStep(1, b)}}
		s.start(e, 1)
		awaitBackground(e)
		waited := make(chan error)
		go func() {
			_, err := e.Recv(from(1, 7), nil)
			waited <- err
		}()
		awaitBackgroundEnd(e) // it has left
		// The timer does not wake the process while the call waits.
		awaitState(e, func(b *background) bool { return !b.armed })
		if err := peer.Send(to(1, 0, 7), nil, Standard); err != nil {
			t.Fatal(err)
		}
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		awaitBackground(e)
		if err := peer.Send(to(1, 0, 1), []byte{8}, Standard); err != nil {
			t.Fatal(err)
		}
		if err := <-s.ended; err != nil || b[0] != 8 {
			t.Fatal(b, err)
		}
	}
}

// TestTakeOverReached: a call that wants to take over from the background returns if another one polls instead, and has done
// what the call waits for.
func TestTakeOverReached(t *testing.T) {
	es := open(t, 2, nil, nil)
	e, w, b := es[0], &es[0].waiters, &es[0].background
	for range 20 {
		e.lock()
		w.polling, w.inBackground, b.running, b.leave = true, true, true, false // as if the background polled
		e.unlock()
		waited := make(chan error)
		go func() {
			_, err := e.Recv(from(1, 7), nil)
			waited <- err
		}()
		awaitState(e, func(b *background) bool {
			if !b.leave {
				return false
			}
			if err := es[1].Send(to(1, 0, 7), nil, Standard); err != nil {
				t.Error(err)
			}
			w.inBackground = false
			e.progress() // as if another call polled
			return true
		})
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		e.lock()
		w.polling, b.running = false, false
		e.unlock()
	}
}

// TestBackgroundStops: no goroutine is left when the engine is closed or has failed with a schedule in progress.
func TestBackgroundStops(t *testing.T) {
	abort := func(e *Engine) error { e.Abort(errors.New("failed")); return nil }
	for _, end := range []func(e *Engine) error{(*Engine).Close, abort} {
		for _, wait := range []func(*Engine){awaitBackground, func(*Engine) {}} {
			e := open(t, 2, nil, nil)[0]
			s := &script{steps: []scriptStep{recvStep(1, nil)}}
			s.start(e, 1)
			wait(e)
			if err := end(e); err != nil {
				t.Fatal(err)
			}
			awaitBackgroundEnd(e)
		}
	}
}
