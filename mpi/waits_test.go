package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestWaits: requests of all kinds complete, in whatever way several goroutines of each rank wait for them at the same time. With
// IBRUN_SOAK=1 there are more of them. TestWaitsOfProcesses does the same between processes.
func TestWaits(t *testing.T) {
	for _, n := range []int{2, 3} {
		mpitest.Run(t, n, manyWaits)
	}
}

// manyWaits is the program of the test. Each goroutine has a communicator of its own, on which it exchanges with the goroutine
// of the same number at the other ranks.
func manyWaits(p *mpi.Process) error {
	w := p.World()
	seed, err := soaktest.ProgramSeed()
	if err != nil {
		return err
	}
	seeds := []uint64{seed}
	if w.Rank() == 0 {
		fmt.Fprintln(os.Stderr, "seed", seed)
	}
	if err := mpi.Bcast(w, seeds, 0); err != nil {
		return err
	}
	var all sync.WaitGroup
	errs := make([]error, 3)
	for g := range errs {
		c, err := w.Dup()
		if err != nil {
			return err
		}
		x := &waiter{p: p, c: c, all: rand.New(rand.NewPCG(seeds[0], uint64(g))),
			own: rand.New(rand.NewPCG(seeds[0], uint64(1000*g+w.Rank()+1000)))}
		all.Go(func() {
			if err := x.run(); err != nil {
				err = fmt.Errorf("seed %d, goroutine %d: %w", seeds[0], g, err)
				errs[g] = errors.Join(err, p.Abort(1)) // the others may wait for this one
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// waiter is a goroutine of one rank.
type waiter struct {
	p    *mpi.Process
	c    *mpi.Comm
	all  *rand.Rand // draws the same numbers at all ranks
	own  *rand.Rand
	reqs []mpi.Request
	// checks return an error if what the requests have received is wrong, and release what they have used.
	checks []func() error
}

func (x *waiter) run() error {
	for i := range soaktest.Choose(500, 10) {
		for range 1 + x.all.IntN(3) {
			if err := waitKinds[x.all.IntN(len(waitKinds))](x); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
		}
		way := x.own.IntN(len(waitWays))
		err := waitWays[way](x, x.reqs)
		for _, f := range x.checks {
			err = errors.Join(err, f())
		}
		if err != nil {
			return fmt.Errorf("round %d, way %d: %w", i, way, err)
		}
		x.reqs, x.checks = x.reqs[:0], x.checks[:0]
	}
	return x.c.Free()
}

// add appends requests, and what checks them.
func (x *waiter) add(check func() error, err error, rs ...mpi.Request) error {
	x.reqs = append(x.reqs, rs...)
	x.checks = append(x.checks, check)
	return err
}

// waitKinds start requests of each kind.
var waitKinds = [...]func(x *waiter) error{
	(*waiter).messages, (*waiter).persistent, (*waiter).partitioned, (*waiter).collective, (*waiter).barrier, (*waiter).idup,
	(*waiter).grequest,
}

// ring returns the ranks to which this one sends, and from which it receives.
func (x *waiter) ring() (next, before int) {
	n := x.c.Size()
	return (x.c.Rank() + 1) % n, (x.c.Rank() + n - 1) % n
}

// drawLength returns the length of a message: short, of several packets, or taken by rendezvous.
func (x *waiter) drawLength() int { return []int{1, 1000, 100_000}[x.all.IntN(3)] }

func (x *waiter) messages() error {
	next, before := x.ring()
	n, send := x.drawLength(), mpi.Isend[int32]
	if x.all.IntN(2) == 0 {
		send = mpi.Issend[int32]
	}
	in, out := make([]int32, n), make([]int32, n)
	out[n-1] = int32(x.c.Rank())
	r, err := mpi.Irecv(x.c, in, before, 1)
	s, err2 := send(x.c, out, next, 1)
	return x.add(func() error { return check(int(in[n-1]) == before, "received %d", in[n-1]) }, errors.Join(err, err2), r, s)
}

func (x *waiter) persistent() error {
	next, before := x.ring()
	n := x.drawLength()
	in, out := make([]int32, n), make([]int32, n)
	out[n-1] = int32(x.c.Rank())
	r, err := mpi.RecvInit(x.c, in, before, 2)
	s, err2 := mpi.SendInit(x.c, out, next, 2)
	err = errors.Join(err, err2, r.Start(), s.Start())
	return x.add(func() error {
		return errors.Join(r.Free(), s.Free(), check(int(in[n-1]) == before, "received %d by a persistent request", in[n-1]))
	}, err, r, s)
}

func (x *waiter) partitioned() error {
	next, before := x.ring()
	in, out := make([]int32, 300), make([]int32, 300)
	out[0] = int32(x.c.Rank())
	r, err := mpi.PrecvInit(x.c, in, 3, before, 3)
	s, err2 := mpi.PsendInit(x.c, out, 3, next, 3)
	err = errors.Join(err, err2, r.Start(), s.Start())
	for i := range 3 {
		err = errors.Join(err, s.Pready(i))
	}
	return x.add(func() error {
		return errors.Join(r.Free(), s.Free(), check(int(in[0]) == before, "received %d in partitions", in[0]))
	}, err, r, s)
}

func (x *waiter) collective() error {
	n := x.drawLength()
	sum, own := make([]int32, n), make([]int32, n)
	own[n-1] = int32(x.c.Rank() + 1)
	r, err := mpi.Iallreduce(x.c, sum, own, mpi.Sum)
	want := x.c.Size() * (x.c.Size() + 1) / 2
	return x.add(func() error { return check(int(sum[n-1]) == want, "the sum is %d", sum[n-1]) }, err, r)
}

func (x *waiter) barrier() error {
	r, err := x.c.Ibarrier()
	return x.add(func() error { return nil }, err, r)
}

func (x *waiter) idup() error {
	d, r, err := x.c.Idup()
	return x.add(func() error { return d.Free() }, err, r)
}

func (x *waiter) grequest() error {
	g, err := x.p.NewGrequest(mpi.GrequestFuncs{})
	if err != nil {
		return err
	}
	completed := make(chan error)
	go func() { completed <- g.Complete() }()
	return x.add(func() error { return <-completed }, nil, g.Request)
}

// waitWays are the ways to wait for requests.
var waitWays = [...]func(x *waiter, rs []mpi.Request) error{
	func(_ *waiter, rs []mpi.Request) (err error) {
		for _, r := range rs {
			_, err2 := r.Wait()
			err = errors.Join(err, err2)
		}
		return err
	},
	func(_ *waiter, rs []mpi.Request) (err error) {
		for _, r := range slices.Backward(rs) {
			for done := false; err == nil && !done; {
				_, done, err = r.Test()
			}
		}
		return err
	},
	func(_ *waiter, rs []mpi.Request) (err error) {
		for _, r := range rs {
			<-r.Done()
			_, err2 := r.Wait()
			err = errors.Join(err, err2)
		}
		return err
	},
	(*waiter).waitContexts,
	func(_ *waiter, rs []mpi.Request) error { return mpi.Waitall(rs, nil) },
	func(_ *waiter, rs []mpi.Request) (err error) {
		for done := false; err == nil && !done; {
			done, err = mpi.Testall(rs, nil)
		}
		return err
	},
	func(_ *waiter, rs []mpi.Request) (err error) {
		for i := 0; err == nil && i != mpi.Undefined; {
			i, _, err = mpi.Waitany(rs)
		}
		return err
	},
	func(_ *waiter, rs []mpi.Request) (err error) {
		for i, ok := 0, false; err == nil && (!ok || i != mpi.Undefined); {
			i, _, ok, err = mpi.Testany(rs)
		}
		return err
	},
	func(_ *waiter, rs []mpi.Request) (err error) {
		idx := make([]int, len(rs))
		for n := 0; err == nil && n != mpi.Undefined; {
			n, err = mpi.Waitsome(rs, idx, nil)
		}
		return err
	},
	func(_ *waiter, rs []mpi.Request) (err error) {
		idx := make([]int, len(rs))
		for n := 0; err == nil && n != mpi.Undefined; {
			n, err = mpi.Testsome(rs, idx, nil)
		}
		return err
	},
}

// waitContexts waits with contexts, some of which end meanwhile.
func (x *waiter) waitContexts(rs []mpi.Request) error {
	for _, r := range rs {
		ctx, cancel := context.WithCancel(context.Background())
		if x.own.IntN(2) == 0 {
			go cancel()
		}
		_, err := r.WaitContext(ctx)
		cancel()
		if errors.Is(err, mpi.ErrPending) {
			_, err = r.Wait()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
