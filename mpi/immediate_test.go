package mpi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// immediateLengths are numbers of elements: none, few, and enough for the algorithms for long messages and for rendezvous.
var immediateLengths = []int{0, 1, 5, 300, 3000, 20_000}

// checkedAndNot runs f with and without checks of calls, and without them also on nodes of two ranks.
func checkedAndNot(t *testing.T, n int, f func(p *mpi.Process) error) {
	t.Helper()
	t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) { mpitest.RunWith(t, n, mpitest.Options{Unchecked: true}, f) })
	t.Run(fmt.Sprintf("ranks=%d,nodes", n), func(t *testing.T) {
		mpitest.RunWith(t, n, mpitest.Options{Machine: pairedNodes, Unchecked: true}, f)
	})
	t.Run(fmt.Sprintf("ranks=%d,checked", n), func(t *testing.T) { runChecked(t, n, f) })
}

// complete waits for all requests in an order of its own.
func complete(reqs []mpi.Request, own *rand.Rand) error {
	var errs []error
	switch own.IntN(3) {
	case 0:
		return mpi.Waitall(reqs, nil)
	case 1:
		for _, i := range own.Perm(len(reqs)) {
			_, err := reqs[i].Wait()
			errs = append(errs, err)
		}
	default:
		for _, i := range own.Perm(len(reqs)) {
			for done := false; !done; {
				var err error
				_, done, err = reqs[i].Test()
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// TestImmediate: immediate collectives of all kinds, several at once and beside messages, have the results of the blocking ones.
// With IBRUN_SOAK=1 it runs more rounds, and more numbers of ranks than one, an odd one and a power of two.
func TestImmediate(t *testing.T) {
	rounds := soaktest.Choose(1000, 12)
	for _, n := range soaktest.Choose([]int{1, 2, 3, 4, 5, 8}, []int{1, 4, 5}) {
		checkedAndNot(t, n, func(p *mpi.Process) error {
			w := p.World()
			b, err := w.Dup()
			if err != nil {
				return err
			}
			all, own := rand.New(rand.NewPCG(uint64(n), 3)), rand.New(rand.NewPCG(uint64(w.Rank()), 4))
			for i := range rounds {
				if i == rounds/2 { // from now on immediate collectives use shared memory
					if err := w.Barrier(); err != nil {
						return err
					}
				}
				if err := someAtOnce(w, b, len(pairNames), all, own, func() int { return all.IntN(n) }); err != nil {
					return err
				}
			}
			return b.Free()
		})
	}
}

// TestImmediateInter is TestImmediate on an intercommunicator.
func TestImmediateInter(t *testing.T) {
	withIntercomm(t, func(_ *mpi.Process, _ *mpi.Session, c *mpi.Comm) error {
		b, err := c.Dup()
		if err != nil {
			return err
		}
		air := c.Size() == 2
		all, own := rand.New(rand.NewPCG(5, 5)), rand.New(rand.NewPCG(uint64(c.Rank()), 6))
		root := func() int {
			airRoot, r := all.IntN(2) == 0, all.IntN(2)
			switch {
			case air != airRoot:
				return r
			case c.Rank() == r:
				return mpi.Root
			}
			return mpi.ProcNull
		}
		for range 40 {
			if err := someAtOnce(c, b, interPairs, all, own, root); err != nil {
				return err
			}
		}
		_, err = mpi.Iscan(c, []int{0}, []int{1}, mpi.Sum)
		return errors.Join(wantClass("Iscan", err, mpi.ErrComm), b.Free())
	})
}

// someAtOnce starts some of the first kinds collectives, makes the blocking calls and sends messages meanwhile, and compares.
func someAtOnce(c, b *mpi.Comm, kinds int, all, own *rand.Rand, root func() int) error {
	var pairs []collectivePair
	var reqs []mpi.Request
	persistent := all.IntN(3) == 0
	for range 1 + all.IntN(6) {
		n := immediateLengths[all.IntN(len(immediateLengths))]
		x := pairOf(c, b, all.IntN(kinds), n, root(), all.IntN(2) == 0, persistent)
		r, err := x.immediate()
		if err != nil {
			return fmt.Errorf("%s of %d: %w", x.name, n, err)
		}
		pairs, reqs = append(pairs, x), append(reqs, r)
	}
	if !persistent {
		return atOnce(c, pairs, reqs, own)
	}
	var errs []error
	for range 3 {
		errs = append(errs, mpi.Startall(reqs), atOnce(c, pairs, reqs, own))
	}
	for _, r := range reqs {
		errs = append(errs, r.Free())
	}
	return errors.Join(errs...)
}

// atOnce completes the collectives reqs, and compares them with the blocking ones.
func atOnce(c *mpi.Comm, pairs []collectivePair, reqs []mpi.Request, own *rand.Rand) error {
	if !c.Remote() {
		next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		x := []int{0}
		if _, err := mpi.Sendrecv(c, []int{c.Rank()}, next, 0, x, before, 0); err != nil || x[0] != before {
			return fmt.Errorf("got %d from %d: %w", x[0], before, err)
		}
	}
	for _, x := range pairs {
		if err := x.blocking(); err != nil {
			return err
		}
	}
	if err := complete(reqs, own); err != nil {
		return err
	}
	for i, x := range pairs {
		if !slices.Equal(x.got, x.want) {
			return fmt.Errorf("rank %d: I%s, %d of %d at once: got %v..., want %v...", c.Rank(), x.name, i, len(pairs),
				x.got[:min(9, len(x.got))], x.want[:min(9, len(x.want))])
		}
	}
	return nil
}

// messagesAndShared runs f on communicators of n ranks, checked and not. On one all immediate collectives use messages, since no
// other was called. On the other the short ones use shared memory.
func messagesAndShared(t *testing.T, n int, f func(c *mpi.Comm) error) {
	t.Helper()
	checkedAndNot(t, n, func(p *mpi.Process) error {
		messages, err := p.World().Dup()
		if err != nil {
			return err
		}
		shared, err := p.World().Dup()
		if err != nil {
			return err
		}
		return errors.Join(f(messages), shared.Barrier(), f(shared))
	})
}

// TestThousandImmediates: a thousand are in progress, and a blocking one overtakes them.
func TestThousandImmediates(t *testing.T) {
	messagesAndShared(t, 3, func(w *mpi.Comm) error {
		const n = 1000
		x, reqs := make([]int, n), make([]mpi.Request, n)
		for i := range x {
			x[i] = i
			var err error
			if reqs[i], err = mpi.Iallreduce(w, x[i:][:1], x[i:][:1], mpi.Sum); err != nil {
				return err
			}
		}
		errs := []error{w.Barrier(), mpi.Waitall(reqs, nil)}
		for i := range x {
			errs = append(errs, check(x[i] == 3*i, "sum %d is %d", i, x[i]))
		}
		return errors.Join(errs...)
	})
}

// TestFreeUnderImmediate: a communicator that is freed while collectives are in progress completes them.
func TestFreeUnderImmediate(t *testing.T) {
	for name, free := range map[string]func(*mpi.Comm) error{"Free": (*mpi.Comm).Free, "Disconnect": (*mpi.Comm).Disconnect} {
		t.Run(name, func(t *testing.T) {
			messagesAndShared(t, 4, func(c *mpi.Comm) error {
				x, y := make([]int, 50_000), []int{c.Rank()}
				if c.Rank() == 3 {
					x[len(x)-1] = 8
				}
				r1, err1 := mpi.Ibcast(c, x, 3)
				r2, err2 := mpi.Iallreduce(c, y, y, mpi.Sum)
				err3 := free(c)
				_, err4 := r1.Wait()
				_, err5 := r2.Wait()
				_, err6 := c.Ibarrier()
				return errors.Join(err1, err2, err3, err4, err5, check(x[len(x)-1] == 8 && y[0] == 6, "got %d and %d", x[len(x)-1], y[0]),
					wantClass("Ibarrier", err6, mpi.ErrComm))
			})
		})
	}
}

// TestImmediateRequest: the request of a collective can neither be cancelled nor freed. It works with Done and Waitany.
func TestImmediateRequest(t *testing.T) {
	checkedAndNot(t, 2, func(p *mpi.Process) error {
		w := p.World()
		r, err := w.Ibarrier()
		errs := []error{err, wantClass("Cancel", r.Cancel(), mpi.ErrRequest), wantClass("Free", r.Free(), mpi.ErrRequest),
			wantClass("Start", r.Start(), mpi.ErrRequest)}
		<-r.Done()
		errs = append(errs, wantClass("Free", r.Free(), mpi.ErrRequest))
		i, st, err := mpi.Waitany([]mpi.Request{r})
		errs = append(errs, err, check(i == 0 && st.Source == mpi.AnySource && st.Tag == mpi.AnyTag && !st.Cancelled(),
			"%d, %+v", i, st))
		_, err = r.Wait()
		return errors.Join(append(errs, wantClass("Wait", err, mpi.ErrRequest))...)
	})
}

// TestPersistentCollective: a persistent collective can be started again and again, not while it is active, and not after the
// communicator was freed or a collective has failed. Free releases it when it is not active.
func TestPersistentCollective(t *testing.T) {
	checkedAndNot(t, 3, func(p *mpi.Process) error {
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		sum := make([]int, 1)
		r, err1 := mpi.AllreduceInit(c, sum, []int{1}, mpi.Sum)
		st, err2 := r.Wait() // it is not active
		errs := []error{err1, err2, check(st.Source == mpi.AnySource, "%+v", st)}
		for range 100 {
			sum[0] = 0
			errs = append(errs, r.Start(), wantClass("Start", r.Start(), mpi.ErrRequest), wantClass("Free", r.Free(), mpi.ErrRequest),
				wantClass("Cancel", r.Cancel(), mpi.ErrRequest))
			_, err := r.Wait()
			errs = append(errs, err, check(sum[0] == 3, "the sum is %d", sum[0]))
		}
		b, err := c.BarrierInit()
		errs = append(errs, err, b.Free(), wantClass("Start", b.Start(), mpi.ErrRequest), c.Free(), r.Start())
		_, err = r.Wait()
		errs = append(errs, wantClass("Wait", err, mpi.ErrComm), r.Free())
		_, err = mpi.BcastInit(p.World(), []int{1}, 3)
		var failed *mpi.Error
		return errors.Join(append(errs, check(errors.As(err, &failed) && failed.Op == "BcastInit" && failed.Class == mpi.ErrRoot,
			"got %v", err))...)
	})
}

// TestPersistentAfterFailure: when a collective has failed, starts fail instead of waiting for ever.
func TestPersistentAfterFailure(t *testing.T) {
	mpitest.RunWith(t, 3, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		good, err1 := c.BarrierInit()
		x := []int{1}
		bad, err2 := mpi.AllreduceInit(c, x, x, mpi.NewOp(true, func(_, _ []int) { panic("no sum") }))
		err3 := bad.Start()
		_, err4 := bad.Wait()
		err5 := good.Start()
		_, err6 := good.Wait()
		return errors.Join(err1, err2, err3, check(err4 != nil, "no error"), err5, wantClass("Wait", err6, mpi.ErrProcFailed))
	})
}

// TestReduceLocal combines in the order of the standard: src comes first.
func TestReduceLocal(t *testing.T) {
	x := []int32{1, 2}
	err := errors.Join(mpi.ReduceLocal(x, []int32{10, 20}, mpi.Sum), mpi.ReduceLocal(x, x, mpi.Max))
	if err != nil || x[0] != 11 || x[1] != 22 {
		t.Errorf("%v, %v", x, err)
	}
	if err := mpi.ReduceLocal(x, []int32{7, 8}, lastOf); err != nil || x[0] != 11 {
		t.Errorf("src is not the first operand: %v, %v", x, err)
	}
	y := make([]int32, 3)
	for class, err := range map[mpi.Class]error{
		mpi.ErrOp: mpi.ReduceLocal(x, x, nil), mpi.ErrCount: mpi.ReduceLocal(x, x[:1], mpi.Sum),
		mpi.ErrBuffer: mpi.ReduceLocal(y[1:], y[:2], mpi.Sum),
	} {
		if !errors.Is(err, class) {
			t.Errorf("got %v, want %v", err, class)
		}
	}
}

// TestImmediateArguments: wrong arguments are errors of the call, and if calls are not checked the communicator stays usable.
func TestImmediateArguments(t *testing.T) {
	mpitest.RunWith(t, 2, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
		w := p.World()
		x := make([]int, 4)
		start := map[string]func() (mpi.Request, error){
			"Ibcast":         func() (mpi.Request, error) { return mpi.Ibcast(w, x, 2) },
			"Igather":        func() (mpi.Request, error) { return mpi.Igather(w, x, x[:1], w.Rank()) },
			"Igatherv":       func() (mpi.Request, error) { return mpi.Igatherv(w, x, []int{5, 5}, nil, x[:1], w.Rank()) },
			"Iscatter":       func() (mpi.Request, error) { return mpi.Iscatter(w, x[:1], x, -1) },
			"Iscatterv":      func() (mpi.Request, error) { return mpi.Iscatterv(w, x, x, []int{1}, nil, w.Rank()) },
			"Iallgather":     func() (mpi.Request, error) { return mpi.Iallgather(w, x, x[1:2]) },
			"Iallgatherv":    func() (mpi.Request, error) { return mpi.Iallgatherv(w, x, []int{1}, nil, x[:1]) },
			"Ialltoall":      func() (mpi.Request, error) { return mpi.Ialltoall(w, x[:3], make([]int, 3)) },
			"Ialltoallv":     func() (mpi.Request, error) { return mpi.Ialltoallv(w, x, []int{3, 3}, nil, x, []int{1, 1}, nil) },
			"Ireduce":        func() (mpi.Request, error) { return mpi.Ireduce(w, x, x, nil, 0) },
			"Iallreduce":     func() (mpi.Request, error) { return mpi.Iallreduce(w, x, x[:2], mpi.Sum) },
			"IreduceScatter": func() (mpi.Request, error) { return mpi.IreduceScatter(w, x, x, []int{1, 1}, mpi.Sum) },
			"Iscan":          func() (mpi.Request, error) { return mpi.Iscan(w, []bool{true}, []bool{true}, mpi.Prod) },
			"Iexscan":        func() (mpi.Request, error) { return mpi.Iexscan(w, x[:2], x[1:3], mpi.Sum) },
		}
		var errs []error
		for name, f := range start {
			var failed *mpi.Error
			if r, err := f(); r != (mpi.Request{}) || !errors.As(err, &failed) || failed.Op != name {
				errs = append(errs, fmt.Errorf("%s: %v, %v", name, r, err))
			}
		}
		var none *mpi.Comm
		_, err := none.Ibarrier()
		r, err1 := w.Ibarrier()
		_, err2 := r.Wait()
		return errors.Join(append(errs, wantClass("Ibarrier", err, mpi.ErrComm), err1, err2)...)
	})
}

// particle is an element with padding.
type particle struct {
	Mass float32
	Site int64
	Kind int8
}

// structPair is a collective of structs: the form that is started, on x, and the blocking one, on y.
type structPair struct{ start, block func() error }

// structData are the buffers of a structPair: of all ranks, of this rank at the start of them, and counts and displacements.
type structData struct {
	c           *mpi.Comm
	x, y        []particle
	other, same []particle
	two, at     []int
}

func (d *structData) own(x []particle) []particle { return x[:d.two[d.c.Rank()]] }

// rooted returns the collectives with a root.
func (d *structData) rooted(s started) []structPair {
	return []structPair{
		{func() error {
			return s.wait(pick(s.persistent, mpi.Ibcast[particle], mpi.BcastInit[particle])(d.c, d.x, 1))
		}, func() error { return mpi.Bcast(d.c, d.y, 1) }},
		{func() error {
			return s.wait(pick(s.persistent, mpi.Igather[particle], mpi.GatherInit[particle])(d.c, d.other, d.x[:3], 1))
		}, func() error { return mpi.Gather(d.c, d.same, d.y[:3], 1) }},
		{func() error {
			f := pick(s.persistent, mpi.Igatherv[particle], mpi.GathervInit[particle])
			return s.wait(f(d.c, d.other, d.two, d.at, d.own(d.x), 2))
		}, func() error { return mpi.Gatherv(d.c, d.same, d.two, d.at, d.own(d.y), 2) }},
		{func() error {
			return s.wait(pick(s.persistent, mpi.Iscatter[particle], mpi.ScatterInit[particle])(d.c, d.other[:3], d.x, 1))
		}, func() error { return mpi.Scatter(d.c, d.same[:3], d.y, 1) }},
		{func() error {
			f := pick(s.persistent, mpi.Iscatterv[particle], mpi.ScattervInit[particle])
			return s.wait(f(d.c, d.own(d.other), d.x, d.two, d.at, 0))
		}, func() error { return mpi.Scatterv(d.c, d.own(d.same), d.y, d.two, d.at, 0) }},
	}
}

// moved returns the collectives that move data between all ranks.
func (d *structData) moved(s started) []structPair {
	ones := []int{1, 1, 1}
	return []structPair{
		{func() error {
			return s.wait(pick(s.persistent, mpi.Iallgather[particle], mpi.AllgatherInit[particle])(d.c, d.other, d.x[:3]))
		}, func() error { return mpi.Allgather(d.c, d.same, d.y[:3]) }},
		{func() error {
			f := pick(s.persistent, mpi.Iallgatherv[particle], mpi.AllgathervInit[particle])
			return s.wait(f(d.c, d.other, d.two, d.at, d.own(d.x)))
		}, func() error { return mpi.Allgatherv(d.c, d.same, d.two, d.at, d.own(d.y)) }},
		{func() error {
			return s.wait(pick(s.persistent, mpi.Ialltoall[particle], mpi.AlltoallInit[particle])(d.c, d.other, d.x))
		}, func() error { return mpi.Alltoall(d.c, d.same, d.y) }},
		{func() error {
			f := pick(s.persistent, mpi.Ialltoallv[particle], mpi.AlltoallvInit[particle])
			return s.wait(f(d.c, d.other, ones, d.at, d.x, ones, nil))
		}, func() error { return mpi.Alltoallv(d.c, d.same, ones, d.at, d.y, ones, nil) }},
	}
}

// TestImmediateStructs: elements of immediate and persistent collectives may be structs.
func TestImmediateStructs(t *testing.T) {
	checkedAndNot(t, 3, func(p *mpi.Process) error {
		c := p.World()
		d := structData{c: c, other: make([]particle, 9), same: make([]particle, 9), two: []int{2, 3, 1}, at: []int{7, 0, 4}}
		for i := range 9 {
			d.x = append(d.x, particle{float32(c.Rank()), int64(100*c.Rank() + i), int8(i)})
		}
		d.y = slices.Clone(d.x)
		for _, persistent := range []bool{false, true} {
			s := started{c, persistent}
			for i, f := range append(d.rooted(s), d.moved(s)...) {
				err := errors.Join(f.start(), f.block(), check(slices.Equal(d.x, d.y), "%d: %v, want %v", i, d.x, d.y),
					check(slices.Equal(d.other, d.same), "%d: %v, want %v", i, d.other, d.same))
				if err != nil {
					return err
				}
				clear(d.other)
				clear(d.same)
			}
		}
		return nil
	})
}

// TestImmediateMismatch: calls that differ are an error of all ranks, at the call or at Wait.
func TestImmediateMismatch(t *testing.T) {
	for name, f := range map[string]func(w *mpi.Comm, x []int) (mpi.Request, error){
		"call": func(w *mpi.Comm, x []int) (mpi.Request, error) {
			if w.Rank() == 0 {
				return w.Ibarrier()
			}
			return mpi.Ibcast(w, x, 0)
		},
		"root": func(w *mpi.Comm, x []int) (mpi.Request, error) { return mpi.Ibcast(w, x, w.Rank()) },
		"count": func(w *mpi.Comm, x []int) (mpi.Request, error) {
			return mpi.Iallreduce(w, x[w.Rank():], x[w.Rank():], mpi.Sum)
		},
		"block": func(w *mpi.Comm, x []int) (mpi.Request, error) {
			return mpi.Igatherv(w, x, []int{1, 1, 1}, nil, x[:1+w.Rank()], 0)
		},
		"argument": func(w *mpi.Comm, x []int) (mpi.Request, error) {
			return mpi.Iallreduce(w, x, x[:len(x)-w.Rank()/2], mpi.Sum)
		},
	} {
		t.Run(name, func(t *testing.T) {
			runChecked(t, 3, func(p *mpi.Process) error {
				r, err := f(p.World(), make([]int, 9))
				if err == nil {
					_, err = r.Wait()
				}
				var failed *mpi.Error
				return check(errors.As(err, &failed), "got %v", err)
			})
		})
	}
}

// TestImmediatePanic: a panic of an operation fails the collective at its rank, and no later one succeeds anywhere.
func TestImmediatePanic(t *testing.T) {
	bad := mpi.NewOp(true, func(dst, _ []int) { panic("no sum") })
	checkedAndNot(t, 3, func(p *mpi.Process) error {
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		x := []int{1}
		r, err := mpi.Iallreduce(c, x, x, bad)
		if err != nil {
			return err
		}
		_, err = r.Wait()
		var panicked *attrs.PanicError
		if !errors.As(err, &panicked) && !errors.Is(err, mpi.ErrProcFailed) {
			return fmt.Errorf("Wait: %w", err)
		}
		_, err1 := c.Ibarrier()
		err2 := c.Barrier()
		return errors.Join(check(err1 != nil && err2 != nil, "later ones: %v, %v", err1, err2))
	})
}

// TestDeathInImmediate: a rank dies before each of the messages that it sends for a collective. Unless IBRUN_SOAK is set, only
// some ranks die: see dyingRanks.
func TestDeathInImmediate(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "") // a rank dies in the memory transport
	const n = 4
	const root = 1
	for _, length := range []int{3, 20_000} {
		for i, name := range pairNames {
			t.Run(fmt.Sprintf("I%s of %d", name, length), func(t *testing.T) {
				for _, victim := range dyingRanks(n, root) {
					at := 0
					for dieAt(t, n, victim, at, func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
						w := p.World()
						return func() (*mpi.Comm, error) {
							r, err := pairOf(w, w, i, length, root, false, false).immediate()
							if err == nil {
								_, err = r.Wait()
							}
							return nil, err
						}, nil
					}) {
						at++
					}
				}
			})
		}
	}
}

// TestDeathInPersistent is TestDeathInImmediate for persistent and neighborhood collectives, in which the root is rank 0.
func TestDeathInPersistent(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "")
	const n = 4
	x, y, z := make([]int, 3000), make([]int, 12_000), make([]int, 12_000)
	for name, prepare := range map[string]func(w *mpi.Comm) (mpi.Request, error){
		"AllreduceInit": func(w *mpi.Comm) (mpi.Request, error) {
			x := slices.Clone(x)
			return mpi.AllreduceInit(w, x, x, mpi.Sum)
		},
		"NeighborAlltoallInit": func(w *mpi.Comm) (mpi.Request, error) {
			c, err := w.CartCreate([]int{2, 2}, []bool{true, true}, mpi.KeepRanks)
			if err != nil {
				return mpi.Request{}, err
			}
			return mpi.NeighborAlltoallInit(c, slices.Clone(y), slices.Clone(z))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, victim := range dyingRanks(n, 0) {
				at := 0
				for dieAt(t, n, victim, at, func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
					r, err := prepare(p.World())
					return func() (*mpi.Comm, error) {
						var err error
						for range 2 {
							if err == nil {
								err = r.Start()
							}
							if err == nil {
								_, err = r.Wait()
							}
						}
						return nil, err
					}, err
				}) {
					at++
				}
				if at == 0 {
					t.Errorf("rank %d sends no message", victim)
				}
			}
		})
	}
}
