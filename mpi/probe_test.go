package mpi_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestProbe probes messages of all protocols, receives some of them, and leaves the others unchanged.
func TestProbe(t *testing.T) {
	uncheck(t)
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		return first(p, func(w *mpi.Comm) error {
			for i, n := range messageLengths {
				for range 4 {
					if _, err := mpi.Isend(w, numbers(n, i), 1, i); err != nil {
						return err
					}
				}
			}
			_, err := mpi.Recv(w, make([]int32, 1), 1, 0)
			return err
		}, func(w *mpi.Comm) error {
			for i, n := range messageLengths {
				tag := i
				for _, f := range []func() (mpi.Status, error){
					func() (mpi.Status, error) { return w.Probe(mpi.AnySource, tag) },
					func() (st mpi.Status, err error) {
						for ok := false; !ok && err == nil; runtime.Gosched() {
							st, ok, err = w.Iprobe(0, mpi.AnyTag)
						}
						return st, err
					},
				} {
					st, err := f()
					if err := errors.Join(err, expect(st, 0, tag, 4*n)); err != nil {
						return err
					}
				}
				if err := probeFourWays(w, n, i); err != nil {
					return fmt.Errorf("%d numbers: %w", n, err)
				}
			}
			_, none, err := w.Iprobe(mpi.AnySource, mpi.AnyTag)
			_, _, none2, err2 := w.Improbe(mpi.AnySource, mpi.AnyTag)
			if none || none2 {
				return errors.New("a message is left")
			}
			return errors.Join(err, err2, mpi.Send(w, numbers(1, 0), 0, 0))
		})
	})
}

// probeFourWays takes four messages with matched probes, and receives them in another order, one of them truncated.
func probeFourWays(w *mpi.Comm, n, i int) error {
	var ms [4]*mpi.Message
	for k := range ms {
		var st mpi.Status
		var err error
		if k%2 == 0 {
			ms[k], st, err = w.Mprobe(0, i)
		} else {
			for ms[k] == nil && err == nil {
				ms[k], st, _, err = w.Improbe(mpi.AnySource, mpi.AnyTag)
			}
		}
		if err := errors.Join(err, expect(st, 0, i, 4*n)); err != nil {
			return err
		}
	}
	for _, k := range []int{2, 0, 3} {
		x := make([]int32, n)
		st, err := mpi.Mrecv(ms[k], x)
		if err := errors.Join(err, expect(st, 0, i, 4*n)); err != nil || !slices.Equal(x, numbers(n, i)) {
			return fmt.Errorf("Mrecv: %w", err)
		}
	}
	x := make([]int32, n/2)
	r, err := mpi.Imrecv(ms[1], x)
	if err != nil {
		return err
	}
	st, err := r.Wait()
	if n > 0 {
		err = wantClass("Imrecv", err, mpi.ErrTruncate)
	}
	_, again := mpi.Mrecv(ms[1], x)
	_, none := mpi.Mrecv(nil, x)
	return errors.Join(err, expect(st, 0, i, 4*(n/2)), wantClass("received twice", again, mpi.ErrRequest),
		wantClass("nil", none, mpi.ErrRequest))
}

// TestThreads lets eight goroutines of each rank send and receive concurrently on one communicator; none may starve or
// get what belongs to another. Half of them use matched probes, which take from wildcards.
func TestThreads(t *testing.T) {
	const threads, rounds = 8, 60
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		w := p.World()
		other := 1 - w.Rank()
		var all sync.WaitGroup
		errs := make([]error, threads)
		for k := range threads {
			all.Go(func() {
				for i := range rounds {
					n := []int{1, 100, 4000}[(i+k)%3]
					r, err := mpi.Isend(w, numbers(n, i*k), other, k)
					if err != nil {
						errs[k] = err
						return
					}
					x := make([]int32, n)
					if k%2 == 0 {
						_, err = mpi.Recv(w, x, mpi.AnySource, k)
					} else if m, _, merr := w.Mprobe(other, k); merr == nil {
						_, err = mpi.Mrecv(m, x)
					} else {
						err = merr
					}
					_, werr := r.Wait()
					if !slices.Equal(x, numbers(n, i*k)) {
						err = errors.Join(err, errors.New("wrong numbers"))
					}
					if errs[k] = errors.Join(err, werr); errs[k] != nil {
						return
					}
				}
			})
		}
		all.Wait()
		return errors.Join(errs...)
	})
}

// TestFair: while seven goroutines keep the communicator busy, a goroutine that waits for another message gets it.
func TestFair(t *testing.T) {
	const busy = 7
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		w := p.World()
		other := 1 - w.Rank()
		var all sync.WaitGroup
		var errs [busy + 1]error
		stop := make(chan struct{})
		for k := range busy {
			all.Go(func() {
				for x := make([]int32, 1); errs[k] == nil && x[0] == 0; { // until both sides say stop
					y := []int32{0}
					select {
					case <-stop:
						y[0] = 1
					default:
					}
					x[0] = 0
					_, errs[k] = mpi.Sendrecv(w, y, other, k, x, other, k)
					x[0] &= y[0]
				}
			})
		}
		for range 20 {
			x := make([]int32, 5000)
			_, err := mpi.Sendrecv(w, x[:2500], other, 99, x[2500:], other, 99)
			errs[busy] = errors.Join(errs[busy], err)
		}
		close(stop)
		all.Wait()
		return errors.Join(errs[:]...)
	})
}
