package mpi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// collectivePair is a collective in both forms, on buffers of their own with the same contents.
type collectivePair struct {
	name      string
	immediate func() (mpi.Request, error)
	blocking  func() error
	got, want []int32
}

// pairMaker has the communicators and buffers of a collectivePair, whose blocks have n elements. Each form has an own and a whole
// buffer; those of the blocking form end with B.
type pairMaker struct {
	c, b               *mpi.Comm
	root, n, blocks    int
	isRoot, inPlace    bool
	own, whole         []int32
	ownB, wholeB       []int32
	same, displs, each []int // counts and displacements; each is the counts of a ReduceScatter
}

// filled returns n numbers that tell the rank.
func filled(c *mpi.Comm, n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(1 + 1000*c.Rank() + 7*i)
	}
	return x
}

// pairOf returns collective i of pairNames. The blocking form uses the communicator b.
func pairOf(c, b *mpi.Comm, i, n, root int, inPlace bool) collectivePair {
	m := pairMaker{c: c, b: b, root: root, n: n, blocks: c.Size(), isRoot: root == c.Rank(), inPlace: inPlace}
	if c.Remote() {
		m.blocks, m.isRoot, m.inPlace = c.RemoteSize(), root == mpi.Root, false
	}
	m.own, m.ownB, m.whole, m.wholeB = filled(c, n), filled(c, n), filled(c, n*m.blocks), filled(c, n*m.blocks)
	m.same, m.displs = slices.Repeat([]int{n}, m.blocks), make([]int, m.blocks)
	for i := range m.displs {
		m.displs[i] = (m.blocks - 1 - i) * n
	}
	var x collectivePair
	switch {
	case i < 5:
		x = m.rooted(i)
	case i < 9:
		x = m.moved(i)
	default:
		x = m.reduced(i)
	}
	x.name = pairNames[i]
	return x
}

// useOwn makes the own buffers those that begin at element at of the whole ones.
func (m *pairMaker) useOwn(at int) { m.own, m.ownB = m.whole[at:][:m.n], m.wholeB[at:][:m.n] }

// target returns the buffers of a result of n elements: others than the sources, or these if the call is in place.
func (m *pairMaker) target(n int, src, srcB []int32) (dst, dstB []int32) {
	if m.inPlace {
		return src[:n], srcB[:n]
	}
	return filled(m.c, n), filled(m.c, n)
}

// rooted returns a collective that moves data from or to a root.
func (m *pairMaker) rooted(i int) collectivePair {
	if m.inPlace && m.isRoot {
		switch pairNames[i] {
		case "gather", "scatter":
			m.useOwn(m.c.Rank() * m.n)
		case "gatherv":
			m.useOwn(m.displs[m.c.Rank()])
		}
	}
	x := collectivePair{got: m.whole, want: m.wholeB}
	switch pairNames[i] {
	case "bcast":
		x.immediate = func() (mpi.Request, error) { return mpi.Ibcast(m.c, m.own, m.root) }
		x.blocking = func() error { return mpi.Bcast(m.b, m.ownB, m.root) }
		x.got, x.want = m.own, m.ownB
	case "gather":
		x.immediate = func() (mpi.Request, error) { return mpi.Igather(m.c, m.whole, m.own, m.root) }
		x.blocking = func() error { return mpi.Gather(m.b, m.wholeB, m.ownB, m.root) }
	case "gatherv":
		x.immediate = func() (mpi.Request, error) { return mpi.Igatherv(m.c, m.whole, m.same, m.displs, m.own, m.root) }
		x.blocking = func() error { return mpi.Gatherv(m.b, m.wholeB, m.same, m.displs, m.ownB, m.root) }
	case "scatter":
		x.immediate = func() (mpi.Request, error) { return mpi.Iscatter(m.c, m.own, m.whole, m.root) }
		x.blocking = func() error { return mpi.Scatter(m.b, m.ownB, m.wholeB, m.root) }
		x.got, x.want = m.own, m.ownB
	case "scatterv":
		x.immediate = func() (mpi.Request, error) { return mpi.Iscatterv(m.c, m.own, m.whole, m.same, m.displs, m.root) }
		x.blocking = func() error { return mpi.Scatterv(m.b, m.ownB, m.wholeB, m.same, m.displs, m.root) }
		x.got, x.want = m.own, m.ownB
	}
	return x
}

// moved returns a collective that moves data between all ranks.
func (m *pairMaker) moved(i int) collectivePair {
	x := collectivePair{got: m.whole, want: m.wholeB}
	switch pairNames[i] {
	case "allgather":
		if m.inPlace {
			m.useOwn(m.c.Rank() * m.n)
		}
		x.immediate = func() (mpi.Request, error) { return mpi.Iallgather(m.c, m.whole, m.own) }
		x.blocking = func() error { return mpi.Allgather(m.b, m.wholeB, m.ownB) }
	case "allgatherv":
		if m.inPlace {
			m.useOwn(m.displs[m.c.Rank()])
		}
		x.immediate = func() (mpi.Request, error) { return mpi.Iallgatherv(m.c, m.whole, m.same, m.displs, m.own) }
		x.blocking = func() error { return mpi.Allgatherv(m.b, m.wholeB, m.same, m.displs, m.ownB) }
	case "alltoall":
		dst, dstB := m.target(len(m.whole), m.whole, m.wholeB)
		x.immediate = func() (mpi.Request, error) { return mpi.Ialltoall(m.c, dst, m.whole) }
		x.blocking = func() error { return mpi.Alltoall(m.b, dstB, m.wholeB) }
		x.got, x.want = dst, dstB
	case "alltoallv":
		dst, dstB := m.target(len(m.whole), m.whole, m.wholeB)
		x.immediate = func() (mpi.Request, error) {
			return mpi.Ialltoallv(m.c, dst, m.same, m.displs, m.whole, m.same, nil)
		}
		x.blocking = func() error { return mpi.Alltoallv(m.b, dstB, m.same, m.displs, m.wholeB, m.same, nil) }
		x.got, x.want = dst, dstB
	}
	return x
}

// reduced returns a reduction or a barrier.
func (m *pairMaker) reduced(i int) collectivePair {
	dst, dstB := m.target(m.n, m.own, m.ownB)
	x := collectivePair{got: dst, want: dstB}
	switch pairNames[i] {
	case "reduce":
		x.immediate = func() (mpi.Request, error) { return mpi.Ireduce(m.c, dst, m.own, mpi.Sum, m.root) }
		x.blocking = func() error { return mpi.Reduce(m.b, dstB, m.ownB, mpi.Sum, m.root) }
	case "allreduce":
		x.immediate = func() (mpi.Request, error) { return mpi.Iallreduce(m.c, dst, m.own, lastOf) }
		x.blocking = func() error { return mpi.Allreduce(m.b, dstB, m.ownB, lastOf) }
	case "reduceScatter": // both groups of an intercommunicator have as many elements
		src, srcB := filled(m.c, 6*m.n), filled(m.c, 6*m.n)
		m.each = slices.Repeat([]int{6 * m.n / m.c.Size()}, m.c.Size())
		m.each[0] += 6 * m.n % m.c.Size()
		dst, dstB := m.target(m.each[m.c.Rank()], src, srcB)
		x.immediate = func() (mpi.Request, error) { return mpi.IreduceScatter(m.c, dst, src, m.each, mpi.Max) }
		x.blocking = func() error { return mpi.ReduceScatter(m.b, dstB, srcB, m.each, mpi.Max) }
		x.got, x.want = dst, dstB
	case "barrier":
		x.immediate, x.blocking = m.c.Ibarrier, m.b.Barrier
	case "scan":
		x.immediate = func() (mpi.Request, error) { return mpi.Iscan(m.c, dst, m.own, mpi.Sum) }
		x.blocking = func() error { return mpi.Scan(m.b, dstB, m.ownB, mpi.Sum) }
	case "exscan":
		x.immediate = func() (mpi.Request, error) { return mpi.Iexscan(m.c, dst, m.own, lastOf) }
		x.blocking = func() error { return mpi.Exscan(m.b, dstB, m.ownB, lastOf) }
	}
	return x
}

// pairNames are the collectives of pairOf.
var pairNames = [...]string{"bcast", "gather", "gatherv", "scatter", "scatterv",
	"allgather", "allgatherv", "alltoall", "alltoallv", "reduce", "allreduce", "reduceScatter", "barrier", "scan", "exscan"}

// interPairs is the number of those that are defined on intercommunicators.
const interPairs = len(pairNames) - 2

// lastOf is an operation that does not commute: the operand of the higher rank.
var lastOf = mpi.NewOp(false, func(dst, src []int32) { copy(dst, src) })

// immediateLengths are numbers of elements: none, few, and enough for the algorithms for long messages and for rendezvous.
var immediateLengths = []int{0, 1, 5, 300, 3000, 20_000}

// checkedAndNot runs f with and without checks of calls.
func checkedAndNot(t *testing.T, n int, f func(p *mpi.Process) error) {
	t.Helper()
	t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) { mpitest.RunWith(t, n, mpitest.Options{Unchecked: true}, f) })
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
func TestImmediate(t *testing.T) {
	rounds := 12
	if os.Getenv("IBRUN_SOAK") != "" {
		rounds = 1000
	}
	for _, n := range []int{1, 2, 3, 5, 8} {
		checkedAndNot(t, n, func(p *mpi.Process) error {
			w := p.World()
			b, err := w.Dup()
			if err != nil {
				return err
			}
			all, own := rand.New(rand.NewPCG(uint64(n), 3)), rand.New(rand.NewPCG(uint64(w.Rank()), 4))
			for range rounds {
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
	for range 1 + all.IntN(6) {
		n := immediateLengths[all.IntN(len(immediateLengths))]
		x := pairOf(c, b, all.IntN(kinds), n, root(), all.IntN(2) == 0)
		r, err := x.immediate()
		if err != nil {
			return fmt.Errorf("%s of %d: %w", x.name, n, err)
		}
		pairs, reqs = append(pairs, x), append(reqs, r)
	}
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

// TestThousandImmediates: a thousand are in progress, and a blocking one overtakes them.
func TestThousandImmediates(t *testing.T) {
	checkedAndNot(t, 3, func(p *mpi.Process) error {
		w := p.World()
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
			checkedAndNot(t, 4, func(p *mpi.Process) error {
				c, err := p.World().Dup()
				if err != nil {
					return err
				}
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

// TestDeathInImmediate: a rank dies before each of the messages that it sends for a collective.
func TestDeathInImmediate(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "") // a rank dies in the memory transport
	const n = 4
	for _, length := range []int{3, 20_000} {
		for i, name := range pairNames {
			t.Run(fmt.Sprintf("I%s of %d", name, length), func(t *testing.T) {
				for victim := range n {
					at := 0
					for dieAt(t, n, victim, at, func(p *mpi.Process) (func() (*mpi.Comm, error), error) {
						w := p.World()
						return func() (*mpi.Comm, error) {
							r, err := pairOf(w, w, i, length, 1, false).immediate()
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

func ExampleIallreduce() {
	// gradients has the gradients of the layers, the last layer first: these are known first.
	sum := func(world *mpi.Comm, gradients [][]float32) error {
		requests := make([]mpi.Request, len(gradients))
		for i, g := range gradients {
			// ... compute g ...
			var err error
			if requests[i], err = mpi.Iallreduce(world, g, g, mpi.Sum); err != nil {
				return err
			}
		}
		return mpi.Waitall(requests, nil)
	}
	_ = sum
}
