package mpi_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// irecvs posts n receives of one number each, with tags from 0.
func irecvs(w *mpi.Comm, n int) (reqs []mpi.Request, x []int32, err error) {
	x = make([]int32, n)
	for i := range n {
		r, err := mpi.Irecv(w, x[i:i+1], 0, i)
		if err != nil {
			return nil, nil, err
		}
		reqs = append(reqs, r)
	}
	return reqs, x, nil
}

// serve lets rank 0 send the numbers that rank 1 asks for, by tag, until it asks for -1.
func serve(w *mpi.Comm) error {
	for {
		x := make([]int32, 1)
		if _, err := mpi.Recv(w, x, 1, 100); err != nil || x[0] < 0 {
			return err
		}
		if err := mpi.Send(w, numbers(1, int(x[0])), 1, int(x[0])); err != nil {
			return err
		}
	}
}

func ask(w *mpi.Comm, tag int) error { return mpi.Send(w, numbers(1, tag), 0, 100) }

// TestShapes waits and tests in all shapes while messages come in another order than the receives.
func TestShapes(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		return first(p, serve, func(w *mpi.Comm) error {
			return errors.Join(waitAndTest(w), anyShapes(w), someShapes(w), allShapes(w), ask(w, -1))
		})
	})
}

func waitAndTest(w *mpi.Comm) error {
	reqs, x, err := irecvs(w, 2)
	if err != nil {
		return err
	}
	if _, ok, err := reqs[0].Test(); ok || err != nil {
		return fmt.Errorf("Test before the message: %v, %v", ok, err)
	}
	if err := errors.Join(ask(w, 1), ask(w, 0)); err != nil {
		return err
	}
	st, err := reqs[1].Wait()
	if err := errors.Join(err, expect(st, 0, 1, 4)); err != nil {
		return err
	}
	for ok := false; !ok; {
		if st, ok, err = reqs[0].Test(); err != nil {
			return err
		}
		runtime.Gosched()
	}
	if err := expect(st, 0, 0, 4); err != nil || !slices.Equal(x, numbers(2, 0)) {
		return fmt.Errorf("%v: %w", x, err)
	}
	_, ok, err2 := reqs[0].Test()
	_, err = reqs[1].Wait()
	if !ok {
		return errors.New("Test of a stale request is not over")
	}
	return errors.Join(wantClass("second Wait", err, mpi.ErrRequest), wantClass("second Test", err2, mpi.ErrRequest),
		wantClass("Free", reqs[0].Free(), mpi.ErrRequest), wantClass("Cancel", reqs[0].Cancel(), mpi.ErrRequest),
		wantClass("Start", reqs[0].Start(), mpi.ErrRequest))
}

func anyShapes(w *mpi.Comm) error {
	reqs, _, err := irecvs(w, 4)
	if err != nil {
		return err
	}
	if i, _, ok, err := mpi.Testany(reqs); ok || err != nil || i != mpi.Undefined {
		return fmt.Errorf("Testany before any message: %d, %v, %v", i, ok, err)
	}
	for _, k := range []int{2, 0, 3} {
		if err := ask(w, k); err != nil {
			return err
		}
		i, st, err := mpi.Waitany(reqs)
		if err := errors.Join(err, expect(st, 0, k, 4)); err != nil || i != k || reqs[k] != (mpi.Request{}) {
			return fmt.Errorf("Waitany: %d, want %d: %w", i, k, err)
		}
	}
	if err := ask(w, 1); err != nil {
		return err
	}
	for {
		i, st, ok, err := mpi.Testany(reqs)
		if err != nil {
			return err
		}
		if ok {
			if err := expect(st, 0, 1, 4); err != nil || i != 1 {
				return fmt.Errorf("Testany: %d: %w", i, err)
			}
			break
		}
		runtime.Gosched()
	}
	i, _, err := mpi.Waitany(reqs)
	j, _, ok, err2 := mpi.Testany(reqs)
	if i != mpi.Undefined || j != mpi.Undefined || !ok {
		return fmt.Errorf("of no requests: %d, %d, %v", i, j, ok)
	}
	return errors.Join(err, err2)
}

func someShapes(w *mpi.Comm) error {
	reqs, _, err := irecvs(w, 5)
	if err != nil {
		return err
	}
	idx, sts := make([]int, 5), make([]mpi.Status, 5)
	if n, err := mpi.Testsome(reqs, idx, sts); n != 0 || err != nil {
		return fmt.Errorf("Testsome before any message: %d, %v", n, err)
	}
	var got []int
	collect := func(f func([]mpi.Request, []int, []mpi.Status) (int, error)) error {
		n, err := f(reqs, idx, sts)
		for k := range max(n, 0) {
			got = append(got, idx[k])
			err = errors.Join(err, expect(sts[k], 0, idx[k], 4))
		}
		runtime.Gosched()
		return err
	}
	if err := errors.Join(ask(w, 3), ask(w, 1)); err != nil {
		return err
	}
	for len(got) < 2 {
		if err := collect(mpi.Waitsome); err != nil {
			return err
		}
	}
	if err := errors.Join(ask(w, 0), ask(w, 4), ask(w, 2)); err != nil {
		return err
	}
	for len(got) < 5 {
		if err := collect(mpi.Testsome); err != nil {
			return err
		}
	}
	slices.Sort(got)
	n, err := mpi.Waitsome(reqs, idx, nil)
	m, err2 := mpi.Testsome(reqs, idx, nil)
	if !slices.Equal(got, []int{0, 1, 2, 3, 4}) || n != mpi.Undefined || m != mpi.Undefined {
		return fmt.Errorf("collected %v, and of no requests %d, %d", got, n, m)
	}
	_, err3 := mpi.Waitsome(reqs, idx[:1], nil)
	return errors.Join(err, err2, wantClass("too few indices", err3, mpi.ErrArg))
}

func allShapes(w *mpi.Comm) error {
	reqs, x, err := irecvs(w, 4)
	if err != nil {
		return err
	}
	reqs = append(reqs, mpi.Request{})
	sts := make([]mpi.Status, 5)
	if err := wantClass("too few statuses", mpi.Waitall(reqs, sts[:2]), mpi.ErrArg); err != nil {
		return err
	}
	for k := range 4 {
		if ok, err := mpi.Testall(reqs, sts); ok || err != nil {
			return fmt.Errorf("Testall after %d messages: %v, %v", k, ok, err)
		}
		if err := ask(w, k); err != nil {
			return err
		}
	}
	for ok := false; !ok; runtime.Gosched() {
		if ok, err = mpi.Testall(reqs, sts); err != nil {
			return err
		}
	}
	for k := range 4 {
		if err := expect(sts[k], 0, k, 4); err != nil {
			return err
		}
	}
	if err := expect(sts[4], mpi.AnySource, mpi.AnyTag, 0); err != nil || !slices.Equal(x, numbers(4, 0)) {
		return fmt.Errorf("%v: %w", x, err)
	}
	// One of several fails: the others have completed, and the first error is returned.
	reqs, _, err = irecvs(w, 3)
	if err != nil {
		return err
	}
	short, err := mpi.Irecv(w, x[:0], 0, 7)
	if err != nil {
		return err
	}
	reqs = append(reqs, short)
	if err := errors.Join(ask(w, 7), ask(w, 2), ask(w, 0), ask(w, 1)); err != nil {
		return err
	}
	err = mpi.Waitall(reqs, sts[:4])
	if !slices.Equal(reqs, make([]mpi.Request, 4)) {
		return errors.New("requests are left after Waitall")
	}
	return errors.Join(wantClass("Waitall", err, mpi.ErrInStatus), wantClass("Waitall", err, mpi.ErrTruncate),
		expect(sts[2], 0, 2, 4), expect(sts[3], 0, 7, 0))
}

// TestNoRequest: calls on the zero Request and on an inactive one return immediately.
func TestNoRequest(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		inactive, err := mpi.RecvInit(p.World(), make([]int32, 1), 0, 0)
		if err != nil {
			return err
		}
		for what, r := range map[string]mpi.Request{"zero": {}, "inactive": inactive} {
			st, err := r.Wait()
			if err := errors.Join(err, expect(st, mpi.AnySource, mpi.AnyTag, 0)); err != nil {
				return fmt.Errorf("%s: Wait: %w", what, err)
			}
			st, ok, err := r.Test()
			if err := errors.Join(err, expect(st, mpi.AnySource, mpi.AnyTag, 0)); err != nil || !ok {
				return fmt.Errorf("%s: Test: %v, %w", what, ok, err)
			}
			if i, _, err := mpi.Waitany([]mpi.Request{r}); i != mpi.Undefined || err != nil {
				return fmt.Errorf("%s: Waitany: %d, %w", what, i, err)
			}
			if err := wantClass(what+": Cancel", r.Cancel(), mpi.ErrRequest); err != nil {
				return err
			}
		}
		reqs := []mpi.Request{{}, inactive}
		if err := mpi.Waitall(reqs, nil); err != nil || reqs[1] != inactive {
			return fmt.Errorf("Waitall: %w", err)
		}
		var zero mpi.Request
		return errors.Join(wantClass("Start", zero.Start(), mpi.ErrRequest), wantClass("Free", zero.Free(), mpi.ErrRequest),
			inactive.Free(), wantClass("Start after Free", inactive.Start(), mpi.ErrRequest))
	})
}

// TestPersistent starts requests again and again, with what the buffer holds each time.
func TestPersistent(t *testing.T) {
	for _, n := range []int{1, 6000} {
		mpitest.Run(t, 2, func(p *mpi.Process) error {
			w := p.World()
			x := make([]int32, n)
			var r mpi.Request
			var err error
			if w.Rank() == 0 {
				r, err = mpi.SendInit(w, x, 1, 2)
			} else {
				r, err = mpi.RecvInit(w, x, mpi.AnySource, mpi.AnyTag)
			}
			if err != nil {
				return err
			}
			for round := range 20 {
				if w.Rank() == 0 {
					copy(x, numbers(n, round))
				}
				reqs := []mpi.Request{{}, r}
				if err := mpi.Startall(reqs[1:]); err != nil {
					return err
				}
				sts := make([]mpi.Status, 2)
				if err := mpi.Waitall(reqs, sts); err != nil || reqs[1] != r {
					return fmt.Errorf("round %d: %w", round, err)
				}
				if w.Rank() == 1 {
					if err := expect(sts[1], 0, 2, 4*n); err != nil || !slices.Equal(x, numbers(n, round)) {
						return fmt.Errorf("round %d: %w", round, err)
					}
				}
			}
			if w.Rank() == 1 { // started twice, and cancelled
				if err := errors.Join(r.Start(), wantClass("Start of an active one", r.Start(), mpi.ErrRequest), r.Cancel()); err != nil {
					return err
				}
				if st, err := r.Wait(); err != nil || !st.Cancelled() {
					return fmt.Errorf("cancelled: %+v, %w", st, err)
				}
			}
			return r.Free()
		})
	}
}

// TestCancel cancels a receive without a message, a receive that has been matched, and sends: see TestSendContextEnds.
func TestCancel(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		return first(p, func(w *mpi.Comm) error {
			withdrawn, err := mpi.Issend(w, numbers(1, 4), 1, 2)
			if err := errors.Join(err, withdrawn.Cancel()); err != nil {
				return err
			}
			if st, err := withdrawn.Wait(); err != nil || !st.Cancelled() {
				return fmt.Errorf("%+v: %w", st, err)
			}
			r, err := mpi.Issend(w, numbers(1, 5), 1, 1)
			if err := errors.Join(err, w.Barrier(), r.Cancel()); err != nil {
				return err
			}
			st, err := r.Wait()
			return errors.Join(err, check(!st.Cancelled(), "a send that had been matched was cancelled"))
		}, func(w *mpi.Comm) error {
			x := []int32{-1}
			none, err := mpi.Irecv(w, x, 0, 77)
			if err := errors.Join(err, none.Cancel()); err != nil {
				return err
			}
			if st, err := none.Wait(); err != nil || !st.Cancelled() || x[0] != -1 {
				return fmt.Errorf("%+v, %v: %w", st, x, err)
			}
			if _, err := w.Probe(0, 1); err != nil {
				return err
			}
			some, err := mpi.Irecv(w, x, 0, 1)
			if err := errors.Join(err, some.Cancel()); err != nil {
				return err
			}
			st, err := some.Wait()
			if err := errors.Join(err, expect(st, 0, 1, 4)); err != nil || x[0] != 5 {
				return fmt.Errorf("matched before: %v: %w", x, err)
			}
			_, found, err := w.Iprobe(0, mpi.AnyTag)
			return errors.Join(err, check(!found, "a message that was withdrawn"), w.Barrier())
		})
	})
}

// TestSynchronous: a synchronous send does not complete before it is matched.
func TestSynchronous(t *testing.T) {
	for _, n := range []int{0, 10, 50000} {
		mpitest.Run(t, 2, func(p *mpi.Process) error {
			return first(p, func(w *mpi.Comm) error {
				r, err := mpi.Issend(w, numbers(n, 0), 1, 1)
				if err != nil {
					return err
				}
				if err := w.Barrier(); err != nil { // the message is there, and not received
					return err
				}
				for range 100 {
					if _, ok, err := r.Test(); ok || err != nil {
						return fmt.Errorf("complete before it is matched: %w", err)
					}
				}
				if err := mpi.Send(w, numbers(0, 0), 1, 2); err != nil {
					return err
				}
				_, err = r.Wait()
				return err
			}, func(w *mpi.Comm) error {
				if _, err := w.Probe(0, 1); err != nil {
					return err
				}
				if err := w.Barrier(); err != nil {
					return err
				}
				if _, err := mpi.Recv(w, []int32{}, 0, 2); err != nil {
					return err
				}
				_, err := mpi.Recv(w, make([]int32, n), 0, 1)
				return err
			})
		})
	}
}
