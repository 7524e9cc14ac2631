package proto

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/shm"
	"github.com/ibrun/ibrun/perf"
)

// shmPair returns two engines of this process that are connected by shared memory.
func shmPair(t *testing.T) (es [2]*Engine) {
	t.Helper()
	var ds [2]fabric.Domain
	tr := &shm.Transport{Local: []int{0, 1}}
	rand.Read(tr.Key[:])
	var opening sync.WaitGroup
	for i := range ds {
		opening.Go(func() {
			var err error
			if ds[i], err = tr.Open(context.Background(), &fabric.Config{Self: i, Size: 2}); err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for i, d := range ds {
		var err error
		if es[i], err = New(Config{Domain: d, Self: i, Size: 2, Oversubscribed: true}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { es[i].Close() }) // the other one may have been closed
	}
	return es
}

// TestSegmentSleeps: a goroutine that waits for the first process of a segment sleeps, alone or
// together with others. None of them misses its wakeup, whichever sleeps on the transport.
func TestSegmentSleeps(t *testing.T) {
	es := shmPair(t)
	other, e := es[0], es[1]
	for round := range 4 { // all orders
		id := uint64(round + 1)
		results := [2]chan error{make(chan error, 1), make(chan error, 1)}
		waits := [2]func() error{
			func() error { return mapAndClose(e, id) },
			func() error { _, err := e.Recv(from(0, 1), make([]byte, 8)); return err },
		}
		gives := [2]func() error{
			func() error { return mapAndClose(other, id) },
			func() error { return other.Send(to(0, 1, 1), make([]byte, 8), Standard) },
		}
		first := round % 2
		for k, i := range []int{first, 1 - first} {
			go func() { results[i] <- waits[i]() }()
			awaitSleepers(e, k+1)
		}
		for k, i := range []int{round / 2 % 2, 1 - round/2%2} {
			if err := gives[i](); err != nil {
				t.Fatal(err)
			}
			if err := <-results[i]; err != nil {
				t.Fatal(err)
			}
			awaitSleepers(e, 1-k)
		}
	}
}

func mapAndClose(e *Engine, id uint64) error {
	s, err := e.Segments().Map(Route{Op: perf.Barrier}, id, []int{0, 1}, 4096)
	if err != nil {
		return err
	}
	return s.Close()
}

// TestSegmentLost: Segments.Map returns an error when a process is lost while it sleeps.
func TestSegmentLost(t *testing.T) {
	es := shmPair(t)
	ended := make(chan error, 1)
	if err := es[0].Send(to(0, 1, 1), nil, Standard); err != nil { // so that they are connected
		t.Fatal(err)
	}
	go func() { ended <- mapAndClose(es[1], 1) }()
	awaitSleepers(es[1], 1)
	if err := es[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrFailed) {
		t.Errorf("a segment that does not exist: %v", err)
	}
}
