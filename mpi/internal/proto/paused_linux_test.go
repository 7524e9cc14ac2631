package proto

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/processor"
)

// TestPausedSleeps: while yields are paused, a goroutine that waits for a message or a word sleeps
// without yielding.
func TestPausedSleeps(t *testing.T) {
	es := shmPair(t)
	e, w := es[0], &es[0].waiters
	w.processors = new(processor.Yielder)
	w.processors.Measured(0, 1000*time.Hour)
	var word, sleepers uint64
	waits := []func() error{
		func() error { _, err := e.Recv(from(1, 1), nil); return err },
		func() error { return e.Segments().WaitAtLeast(Route{}, 0, &word, 1, &sleepers) },
	}
	wakes := []func() error{
		func() error { return es[1].Send(to(1, 0, 1), nil, Standard) },
		func() error { atomic.StoreUint64(&word, 1); w.parker.Wake(); return nil },
	}
	for i, wait := range waits {
		ended := make(chan error, 1)
		go func() { ended <- wait() }()
		awaitSleepers(e, 1)
		if err := errors.Join(wakes[i](), <-ended); err != nil {
			t.Fatal(err)
		}
	}
	if w.yields != 0 {
		t.Errorf("they have yielded %d times", w.yields)
	}
}
