package proto

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestManyGoroutines: many goroutines of each process send bursts to their partners and answer them
// at the same time. Each gets its own messages, in order, with few processors and with more than
// the machine may have.
func TestManyGoroutines(t *testing.T) {
	const goroutines, rounds, burst = 64, 20, 3
	for _, w := range []wrap{nil, deferring} {
		for _, processors := range []int{1, 2, 8} {
			func() {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
				es := open(t, 2, w, func(c *Config) { c.Oversubscribed = processors == 1 })
				var all sync.WaitGroup
				for self, e := range es {
					for tag := range int32(goroutines) {
						all.Go(func() {
							if err := exchangeBursts(e, self, tag, rounds, burst); err != nil {
								t.Errorf("process %d, tag %d: %v", self, tag, err)
							}
						})
					}
				}
				all.Wait()
				checkIdle(t, es)
			}()
		}
	}
}

// exchangeBursts sends rounds of numbered messages to the other process, and checks those that it
// gets.
func exchangeBursts(e *Engine, self int, tag int32, rounds, burst int) error {
	buf, sent, got := make([]byte, 8), uint64(0), uint64(0)
	for range rounds {
		for range burst {
			binary.LittleEndian.PutUint64(buf, sent)
			if err := e.Send(to(self, 1-self, tag), buf, Standard); err != nil {
				return err
			}
			sent++
		}
		for range burst {
			st, err := e.Recv(from(1-self, tag), buf)
			if x := binary.LittleEndian.Uint64(buf); err != nil || x != got || st.Tag != tag || st.Bytes != 8 {
				return fmt.Errorf("got %d instead of %d, %+v, %v", x, got, st, err)
			}
			got++
		}
	}
	return nil
}

// checkIdle checks that no goroutine is counted as waiting.
func checkIdle(t *testing.T, es []*Engine) {
	t.Helper()
	for i, e := range es {
		e.lock()
		w := &e.waiters
		if w.polling || w.woken != 0 || w.sleeping || w.parked.len != 0 || w.parked.head != nil || len(w.watchers) != 0 ||
			w.general != 0 || w.words != 0 {
			t.Errorf("process %d: %+v", i, w)
		}
		e.unlock()
	}
}

// TestNewcomerRuns: on one processor, a goroutine whose messages arrive at once does not keep one
// that is started from running.
func TestNewcomerRuns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	es := open(t, 1, nil, func(c *Config) { c.Oversubscribed = false })
	e := es[0]
	var done atomic.Bool
	go func() {
		if err := exchangeSelf(e, 2); err != nil {
			t.Error(err)
		}
		done.Store(true)
	}()
	for i := 0; !done.Load(); i++ {
		if err := exchangeSelf(e, 1); err != nil {
			t.Fatal(err)
		}
		if i == 10_000_000 {
			t.Fatal("it has not run")
		}
	}
}

func exchangeSelf(e *Engine, tag int32) error {
	if err := e.Send(to(0, 0, tag), make([]byte, 8), Standard); err != nil {
		return err
	}
	_, err := e.Recv(from(0, tag), make([]byte, 8))
	return err
}

// TestLossWakesMany: many goroutines that wait for one process learn that it was lost, and those
// that wait in a context that it has ended.
func TestLossWakesMany(t *testing.T) {
	const goroutines = 128
	for _, lost := range []bool{true, false} {
		es := open(t, 2, nil, nil)
		e := es[0]
		errs := make(chan error, goroutines)
		for tag := range int32(goroutines) {
			go func() {
				_, err := e.Recv(from(1, tag), nil)
				errs <- err
			}()
		}
		awaitSleepers(e, goroutines)
		want := ErrFailed
		if lost {
			if err := es[1].Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			want = context.Canceled
			e.Contexts().End(from(1, 0).Context, want)
		}
		for range goroutines {
			if err := <-errs; !errors.Is(err, want) {
				t.Fatalf("%v, want %v", err, want)
			}
		}
		checkIdle(t, es[:1])
	}
}

// TestContextWakesOne: the end of a context wakes the goroutine that waits with it, and no other.
func TestContextWakesOne(t *testing.T) {
	const goroutines = 20
	es := open(t, 2, nil, nil)
	e := es[0]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make(chan error, goroutines)
	for tag := range int32(goroutines) {
		go func() {
			var err error
			if tag == goroutines/2 {
				_, err = e.RecvContext(ctx, from(1, tag), nil)
			} else {
				_, err = e.Recv(from(1, tag), nil)
			}
			errs <- err
		}()
	}
	w, found := &e.waiters, 0
	for { // a goroutine that sleeps on the transport polls from time to time, and may do so now
		awaitSleepers(e, goroutines)
		if e.lock(); !w.polling {
			break
		}
		e.unlock()
	}
	for _, slab := range e.requests.slabs {
		for i := range slab {
			if x := slab[i].sleeper; x != nil && x.stop != nil {
				found++
				x.stop.end()
			}
		}
	}
	if woken := w.woken; found != 1 || w.roused == (woken == 1) || woken > 1 {
		t.Errorf("%d goroutines wait with a context; it has woken %d, and the one that polls: %v", found, woken, w.roused)
	}
	cancel() // before the goroutine looks at the context
	e.unlock()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("the one with the context: %v", err)
	}
	for tag := range int32(goroutines) {
		if tag != goroutines/2 {
			if err := es[1].Send(to(1, 0, tag), nil, Standard); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range goroutines - 1 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	checkIdle(t, es)
}
