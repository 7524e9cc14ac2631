package mpi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// checkProcesses checks that a communicator consists of these ranks of World, by exchanging their numbers.
func checkProcesses(c *mpi.Comm, p *mpi.Process, ranks ...int) error {
	all := make([]int, c.Size())
	err := mpi.Allgather(c, all, []int{p.World().Rank()})
	if len(all) > c.Rank() && all[c.Rank()] != p.World().Rank() {
		err = errors.Join(err, fmt.Errorf("rank %d is not this process", c.Rank()))
	}
	return want("ranks", err, all, ranks)
}

func TestSplit(t *testing.T) {
	mpitest.Run(t, 6, func(p *mpi.Process) error {
		w := p.World()
		me := w.Rank()
		same, err := w.Split(3, 0)
		if err != nil {
			return err
		}
		back, err := same.Split(0, -me)
		if err != nil {
			return err
		}
		pairs, err := back.Split(me/2, []int{5, -1 << 62, 0, 0, 7, 1 << 62}[me])
		if err != nil {
			return err
		}
		color := mpi.Undefined
		if me%2 == 1 {
			color = 1 << 40
		}
		odd, err := w.Split(color, 0)
		if err != nil || (odd == nil) != (me%2 == 0) {
			return fmt.Errorf("color %d: %v, %w", color, odd, err)
		}
		// Ranks 0 and 1: the lower key first. 2 and 3: of equal keys the lower rank in back, which is 3. 4 and 5:
		// as their keys.
		pair := [][]int{{1, 0}, {3, 2}, {4, 5}}[me/2]
		errs := []error{
			checkProcesses(same, p, 0, 1, 2, 3, 4, 5), checkProcesses(back, p, 5, 4, 3, 2, 1, 0), checkProcesses(pairs, p, pair...),
		}
		if odd != nil {
			errs = append(errs, checkProcesses(odd, p, 1, 3, 5), odd.Free())
		}
		return errors.Join(append(errs, pairs.Free(), back.Free(), same.Free())...)
	})
}

// TestSplitColor: an invalid color is an error at the rank that gave it, and the other ranks continue.
func TestSplitColor(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		color := 0
		if p.World().Rank() == 1 {
			color = -1
		}
		c, err := p.World().Split(color, 0)
		if color < 0 {
			return ofClass(err, mpi.ErrArg)
		}
		if err != nil {
			return err
		}
		return errors.Join(checkProcesses(c, p, 0, 2), c.Free())
	})
}

func TestWorldOfOne(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		s := p.Self()
		d, err := s.Dup()
		if err != nil {
			return err
		}
		if s.Size() != 1 || s.Rank() != 0 || d.Size() != 1 {
			return fmt.Errorf("rank %d of %d, duplicated to %d", s.Rank(), s.Size(), d.Size())
		}
		none, err := d.Split(mpi.Undefined, 0)
		if none != nil || err != nil {
			return fmt.Errorf("%v, %v", none, err)
		}
		return errors.Join(checkProcesses(s, p, p.World().Rank()), checkProcesses(d, p, p.World().Rank()), d.Free())
	})
}

// TestContextsSeparate: a message of one communicator is never received in another, in any order of receives.
func TestContextsSeparate(t *testing.T) {
	eachAlgorithm(t, []int{2, 4}, func(p *mpi.Process) error {
		w := p.World()
		comms := []*mpi.Comm{w}
		for range 5 {
			d, err := comms[len(comms)-1].Dup()
			if err != nil {
				return err
			}
			comms = append(comms, d)
		}
		next, prev := (w.Rank()+1)%w.Size(), (w.Rank()+w.Size()-1)%w.Size()
		var reqs []mpi.Request
		for i, c := range comms {
			r, err := mpi.Isend(c, []int{i, w.Rank()}, next, 5)
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
			if err := c.Barrier(); err != nil { // its messages are separate from those of users
				return err
			}
		}
		for i := len(comms) - 1; i >= 0; i-- {
			got := make([]int, 2)
			_, err := mpi.Recv(comms[i], got, mpi.AnySource, mpi.AnyTag)
			if err := want("message", err, got, []int{i, prev}); err != nil {
				return err
			}
		}
		errs := []error{mpi.Waitall(reqs, nil)}
		for _, c := range comms[1:] {
			errs = append(errs, c.Free())
		}
		return errors.Join(errs...)
	})
}

// TestConcurrentCreation: goroutines create, use and free communicators at the same time, each on its own communicator. With
// IBRUN_SOAK=1 it also runs with two ranks.
func TestConcurrentCreation(t *testing.T) {
	eachAlgorithm(t, soaktest.Choose([]int{1, 2, 4}, []int{1, 4}), func(p *mpi.Process) error {
		const goroutines = 4
		var own [goroutines]*mpi.Comm
		for i := range own {
			var err error
			if own[i], err = p.World().Dup(); err != nil {
				return err
			}
		}
		errs := make([]error, goroutines)
		var all sync.WaitGroup
		for i := range own {
			all.Go(func() { errs[i] = createConcurrently(own[i], uint64(i)) })
		}
		all.Wait()
		for _, c := range own {
			errs = append(errs, c.Free())
		}
		return errors.Join(errs...)
	})
}

// createConcurrently creates communicators from others, in an order that is random but the same at all ranks, and
// frees them in another order.
func createConcurrently(c *mpi.Comm, seed uint64) error {
	rnd := rand.New(rand.NewPCG(seed, 1))
	live := []*mpi.Comm{c}
	for range 25 {
		i := rnd.IntN(len(live))
		from, half := live[i], rnd.IntN(2) == 0
		if i > 0 && rnd.IntN(3) == 0 {
			if err := from.Free(); err != nil {
				return err
			}
			live = append(live[:i], live[i+1:]...)
			continue
		}
		d, err := from.Dup()
		if half && err == nil {
			var e *mpi.Comm
			if e, err = d.Split(d.Rank()%2, 0); err == nil {
				err = errors.Join(checkSum(e), d.Free(), e.Free())
			}
		} else if err == nil {
			live = append(live, d)
			err = checkSum(d)
		}
		if err != nil {
			return err
		}
	}
	for i := len(live) - 1; i > 0; i-- {
		if err := live[i].Free(); err != nil {
			return err
		}
	}
	return nil
}

func checkSum(c *mpi.Comm) error {
	n, x := c.Size(), []int{c.Rank()}
	err := mpi.Allreduce(c, x, x, mpi.Sum)
	return want("sum of ranks", err, x, []int{n * (n - 1) / 2})
}

// TestDupOrders: one rank duplicates two communicators one after the other, the other rank both concurrently.
func TestDupOrders(t *testing.T) {
	eachAlgorithm(t, []int{2, 3}, func(p *mpi.Process) error {
		a, err := p.World().Dup()
		if err != nil {
			return err
		}
		b, err := p.World().Dup()
		if err != nil {
			return err
		}
		dup := func(c *mpi.Comm) error {
			d, err := c.Dup()
			if err != nil {
				return err
			}
			return errors.Join(checkSum(d), d.Free())
		}
		for range 20 {
			if p.World().Rank() == 0 {
				err = errors.Join(dup(b), dup(a))
			} else {
				errs := make([]error, 2)
				var both sync.WaitGroup
				begun := make(chan struct{})
				both.Go(func() {
					close(begun)
					errs[0] = dup(a)
				})
				both.Go(func() {
					<-begun // so that the other one is mostly first
					errs[1] = dup(b)
				})
				both.Wait()
				err = errors.Join(errs...)
			}
			if err != nil {
				return err
			}
		}
		return errors.Join(a.Free(), b.Free())
	})
}

// TestContextIDsUndefined: a rank that gets no communicator does not keep a context id for it.
func TestContextIDsUndefined(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		color := 0
		if p.World().Rank() == 1 {
			color = mpi.Undefined
		}
		for i := range 4200 {
			c, err := p.World().Split(color, 0)
			if err == nil && c != nil {
				err = c.Free()
			}
			if err != nil {
				return fmt.Errorf("communicator %d: %w", i, err)
			}
		}
		return nil
	})
}
