package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// called records the callbacks of a generalized request.
type called struct {
	calls []string
	fail  map[string]error // the results of callbacks
	panic any              // of the query callback, unless nil
}

func (x *called) call(name string) error {
	x.calls = append(x.calls, name)
	return x.fail[name]
}

// funcs returns callbacks whose status is a message of n float64 from rank 7 with tag 8.
func (x *called) funcs(n int) mpi.GrequestFuncs {
	return mpi.GrequestFuncs{
		Query: func(st *mpi.Status) error {
			err := x.call("query")
			if x.panic != nil {
				panic(x.panic)
			}
			st.Source, st.Tag = 7, 8
			return errors.Join(err, mpi.SetCount[float64](st, n))
		},
		Free:   func() error { return x.call("free") },
		Cancel: func(complete bool) error { return x.call(fmt.Sprintf("cancel(%v)", complete)) },
	}
}

// want checks which callbacks were called, and forgets them.
func (x *called) want(calls ...string) error {
	got := x.calls
	x.calls = nil
	if !slices.Equal(got, calls) {
		return fmt.Errorf("callbacks %q were called, want %q", got, calls)
	}
	return nil
}

// isOf checks a status of funcs(n).
func isOf(st mpi.Status, n int) error {
	if st.Source != 7 || st.Tag != 8 || mpi.Count[float64](st) != n || st.Cancelled() {
		return fmt.Errorf("status %+v, want %d elements from 7 with tag 8", st, n)
	}
	return nil
}

// collectors are all calls that collect a request. Each returns the status, and an error without an index.
var collectors = map[string]func(r mpi.Request) (mpi.Status, error){
	"Wait": mpi.Request.Wait,
	"WaitContext": func(r mpi.Request) (mpi.Status, error) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		return r.WaitContext(ctx)
	},
	"Test": func(r mpi.Request) (mpi.Status, error) {
		st, ok, err := r.Test()
		return st, errors.Join(err, check(ok, "Test reports false"))
	},
	"Waitall": func(r mpi.Request) (mpi.Status, error) {
		sts := make([]mpi.Status, 1)
		err := mpi.Waitall([]mpi.Request{r}, sts)
		return sts[0], err
	},
	"Testall": func(r mpi.Request) (mpi.Status, error) {
		sts := make([]mpi.Status, 1)
		ok, err := mpi.Testall([]mpi.Request{r}, sts)
		return sts[0], errors.Join(err, check(ok, "Testall reports false"))
	},
	"Waitany": func(r mpi.Request) (mpi.Status, error) {
		_, st, err := mpi.Waitany([]mpi.Request{r})
		return st, err
	},
	"Testany": func(r mpi.Request) (mpi.Status, error) {
		_, st, ok, err := mpi.Testany([]mpi.Request{r})
		return st, errors.Join(err, check(ok, "Testany reports false"))
	},
	"Waitsome": func(r mpi.Request) (mpi.Status, error) {
		sts := make([]mpi.Status, 1)
		_, err := mpi.Waitsome([]mpi.Request{r}, make([]int, 1), sts)
		return sts[0], err
	},
	"Testsome": func(r mpi.Request) (mpi.Status, error) {
		sts := make([]mpi.Status, 1)
		n, err := mpi.Testsome([]mpi.Request{r}, make([]int, 1), sts)
		return sts[0], errors.Join(err, check(n == 1, "Testsome: %d", n))
	},
}

// TestGrequestCollected: every call that collects a generalized request calls query and then free, once. Errors and panics of
// these are returned with their class, and use the request up.
func TestGrequestCollected(t *testing.T) {
	cause := errors.New("cause")
	typed := &mpi.Error{Class: mpi.ErrTag, Op: "Query", Err: cause}
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		var errs []error
		for name, collect := range collectors {
			for _, x := range []*called{
				{}, {fail: map[string]error{"query": cause}}, {fail: map[string]error{"free": cause}},
				{fail: map[string]error{"query": typed}}, {panic: cause},
			} {
				g, err := p.NewGrequest(x.funcs(3))
				if err != nil {
					return err
				}
				_, ok, err := g.Test()
				errs = append(errs, err, check(!ok, "complete at once"), x.want(), g.Complete(), x.want())
				st, err := collect(g.Request)
				errs = append(errs, x.want("query", "free"))
				if x.fail == nil && x.panic == nil {
					errs = append(errs, err, isOf(st, 3))
				} else {
					errs = append(errs, check(errors.Is(err, cause), "%s: %v", name, err),
						checkClass(err, x.fail["query"] == typed),
						check(errors.As(err, new(*attrs.PanicError)) == (x.panic != nil), "%s: %v", name, err))
				}
				_, err = g.Wait()
				errs = append(errs, ofClass(err, mpi.ErrRequest), ofClass(g.Complete(), mpi.ErrRequest), x.want())
			}
		}
		return errors.Join(errs...)
	})
}

// checkClass checks that an error has the class of the callback's error, or ErrOther.
func checkClass(err error, tag bool) error {
	return check(errors.Is(err, mpi.ErrTag) == tag && errors.Is(err, mpi.ErrOther) != tag, "the class of %v is wrong", err)
}

// TestGrequestFree: free is called by the later one of Free and Complete, query by neither.
func TestGrequestFree(t *testing.T) {
	cause := errors.New("cause")
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		var errs []error
		for _, fail := range []error{nil, cause} {
			for _, freeFirst := range []bool{false, true} {
				x := &called{fail: map[string]error{"free": fail}}
				g, err := p.NewGrequest(x.funcs(1))
				if err != nil {
					return err
				}
				first, last := g.Complete, g.Request.Free
				if freeFirst {
					first, last = last, first
				}
				errs = append(errs, first(), x.want())
				err = last()
				errs = append(errs, check(errors.Is(err, fail), "%v, want %v", err, fail), x.want("free"),
					ofClass(g.Complete(), mpi.ErrRequest), ofClass(g.Free(), mpi.ErrRequest), x.want())
			}
		}
		var zero mpi.Grequest
		return errors.Join(append(errs, ofClass(zero.Complete(), mpi.ErrRequest))...)
	})
}

// TestGrequestCancel: cancel learns whether the request is complete. Query says whether the operation was cancelled.
func TestGrequestCancel(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		x := &called{}
		f := x.funcs(1)
		f.Query = func(st *mpi.Status) error {
			st.SetCancelled(true)
			return nil
		}
		g, err := p.NewGrequest(f)
		if err != nil {
			return err
		}
		errs := []error{g.Cancel(), x.want("cancel(false)"), g.Complete(), g.Cancel(), x.want("cancel(true)")}
		cause := errors.New("cause")
		x.fail = map[string]error{"cancel(true)": cause}
		errs = append(errs, check(errors.Is(g.Cancel(), cause), "no error"), x.want("cancel(true)"))
		st, err := g.Wait()
		errs = append(errs, err, check(st.Cancelled(), "not cancelled"), ofClass(g.Cancel(), mpi.ErrRequest), x.want("free"))
		none, err := p.NewGrequest(mpi.GrequestFuncs{})
		errs = append(errs, err, none.Cancel(), none.Complete())
		st, err = none.Wait()
		return errors.Join(append(errs, err, check(st.Source == mpi.AnySource && st.Bytes() == 0, "%+v", st))...)
	})
}

// TestGrequestCallbacksCommunicate: callbacks may call the library, also for the request itself.
func TestGrequestCallbacksCommunicate(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		c := p.World()
		other := 1 - c.Rank()
		var g mpi.Grequest
		x := make([]int, 1)
		f := mpi.GrequestFuncs{
			Query: func(st *mpi.Status) (err error) {
				*st, err = mpi.Sendrecv(c, []int{c.Rank()}, other, 1, x, other, 1)
				_, stale := g.Wait()
				return errors.Join(err, ofClass(stale, mpi.ErrRequest))
			},
			Free: func() error { return c.Barrier() },
		}
		g, err := p.NewGrequest(f)
		if err != nil {
			return err
		}
		if err := g.Complete(); err != nil {
			return err
		}
		st, err := g.Wait()
		return errors.Join(err, check(st.Source == other && x[0] == other && mpi.Count[int](st) == 1, "%+v, %v", st, x))
	})
}

// TestGrequestMixed waits for generalized requests among receives, which goroutines and the other rank complete: with few
// requests, and with so many that the engine remembers them.
func TestGrequestMixed(t *testing.T) {
	for _, n := range []int{8, 100} {
		mpitest.Run(t, 2, func(p *mpi.Process) error {
			c := p.World()
			for round := range 4 {
				if err := c.Barrier(); err != nil {
					return err
				}
				if c.Rank() == 1 {
					for i := 0; i < n; i += 2 {
						if err := mpi.Send(c, make([]float64, i), 0, i); err != nil {
							return err
						}
					}
				} else if err := waitMixed(p, n, round); err != nil {
					return fmt.Errorf("%d requests, round %d: %w", n, round, err)
				}
			}
			return nil
		})
	}
}

// waitMixed waits for n requests of which every other one is a receive, in one of four ways. Request i gets i elements.
func waitMixed(p *mpi.Process, n, way int) error {
	reqs, sts := make([]mpi.Request, n), make([]mpi.Status, n)
	var completed sync.WaitGroup
	defer completed.Wait()
	for i := range reqs {
		if i%2 == 0 {
			var err error
			if reqs[i], err = mpi.Irecv(p.World(), make([]float64, n), 1, i); err != nil {
				return err
			}
			continue
		}
		g, err := p.NewGrequest(mpi.GrequestFuncs{Query: func(st *mpi.Status) error {
			return mpi.SetCount[float64](st, i)
		}})
		if err != nil {
			return err
		}
		reqs[i] = g.Request
		completed.Go(func() { g.Complete() })
	}
	if err := collectMixed(reqs, sts, way); err != nil {
		return err
	}
	for i, st := range sts {
		if got := mpi.Count[float64](st); got != i {
			return fmt.Errorf("request %d has %d elements", i, got)
		}
	}
	return nil
}

func collectMixed(reqs []mpi.Request, sts []mpi.Status, way int) error {
	for left := len(reqs); left > 0; {
		switch way {
		case 0:
			return mpi.Waitall(reqs, sts)
		case 1:
			i, st, err := mpi.Waitany(reqs)
			if err != nil {
				return err
			}
			sts[i] = st
			left--
		case 2:
			idx, some := make([]int, len(reqs)), make([]mpi.Status, len(reqs))
			n, err := mpi.Waitsome(reqs, idx, some)
			if err != nil {
				return err
			}
			for k, i := range idx[:n] {
				sts[i] = some[k]
			}
			left -= n
		default:
			left--
			<-reqs[left].Done()
			var err error
			if sts[left], err = reqs[left].Wait(); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestGrequestGoroutines: of several goroutines that wait for one generalized request, one gets it, and the callbacks run once.
func TestGrequestGoroutines(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		for range 100 {
			x := &called{}
			g, err := p.NewGrequest(x.funcs(2))
			if err != nil {
				return err
			}
			var all sync.WaitGroup
			results := make([]error, 4)
			for i := range results {
				all.Go(func() { _, results[i] = g.Wait() })
			}
			all.Go(func() { err = g.Complete() })
			all.Wait()
			got := 0
			for _, r := range results {
				if r == nil {
					got++
				} else if wrong := ofClass(r, mpi.ErrRequest); wrong != nil {
					return wrong
				}
			}
			if err := errors.Join(err, check(got == 1, "%d goroutines got it", got), x.want("query", "free")); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestStatusSetElements: the number of elements is that of the datatype, also if the last one is not complete.
func TestStatusSetElements(t *testing.T) {
	pair, err := mpi.TypeStruct([]int{1, 1}, []int{0, 8}, []*mpi.Datatype{typeOf[float64](), typeOf[int8]()})
	if err != nil {
		t.Fatal(err)
	}
	for n, bytes := range []int{0, 8, 9, 17, 18} {
		var st mpi.Status
		if err := st.SetElements(pair, n); err != nil || st.Bytes() != bytes {
			t.Errorf("%d elements: %v, %d bytes, want %d", n, err, st.Bytes(), bytes)
		}
		if got, err := st.Elements(pair); err != nil || got != n {
			t.Errorf("%d elements, %v; want %d", got, err, n)
		}
	}
	var st mpi.Status
	for _, err := range []error{
		ofClass(st.SetElements(pair, -1), mpi.ErrCount), ofClass(st.SetElements(nil, 1), mpi.ErrType),
		ofClass(mpi.SetCount[int64](&st, -1), mpi.ErrCount), ofClass(mpi.SetCount[int64](&st, math.MaxInt), mpi.ErrCount),
		ofClass(mpi.SetCount[string](&st, 1), mpi.ErrType), check(st.Bytes() == 0, "a call that failed changed the status"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestDoneSelect waits for requests, a context and an iterator at the same time. The zero Request is complete.
func TestDoneSelect(t *testing.T) {
	<-mpi.Request{}.Done()
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		c := p.World()
		if c.Rank() == 1 {
			return errors.Join(mpi.Send(c, []int{1}, 0, 1), c.Barrier(), mpi.Send(c, []int{2}, 0, 2))
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		never, err := mpi.Irecv(c, make([]int, 1), 1, 3)
		if err != nil {
			return err
		}
		late, err := mpi.Irecv(c, make([]int, 1), 1, 2)
		if err != nil {
			return err
		}
		for m, err := range mpi.Messages[int](ctx, c, 1, 1) {
			if err != nil || m.Data[0] != 1 {
				return fmt.Errorf("%v: %w", m, err)
			}
			select {
			case <-late.Done():
				return errors.New("the receive is complete before its message was sent")
			default:
			}
			break
		}
		if err := c.Barrier(); err != nil {
			return err
		}
		select {
		case <-late.Done():
			cancel(errStop)
		case <-never.Done():
			return errors.New("the wrong receive is complete")
		}
		select {
		case <-never.Done():
			return errors.New("the wrong receive is complete")
		case <-ctx.Done():
		}
		cancelled := never.Done()
		if err := never.Cancel(); err != nil {
			return err
		}
		<-cancelled
		st, err := never.Wait()
		_, err2 := late.Wait()
		return errors.Join(err, err2, check(st.Cancelled(), "not cancelled"))
	})
}

// TestDoneNeverRead: a rank that leaves the job closes the channels of operations in progress.
func TestDoneNeverRead(t *testing.T) {
	var left <-chan struct{}
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		g, err := p.NewGrequest(mpi.GrequestFuncs{})
		left = g.Done()
		return err
	})
	<-left
}
