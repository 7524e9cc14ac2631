package mpi_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
)

// TestContextIDs: goroutines create communicators of different communicators at the same time, in another order at each rank. At
// most 4096 communicators can exist; when some are freed, others can be created.
func TestContextIDs(t *testing.T) {
	inWorlds(t, 3, map[string]func(p *mpi.Process) error{
		"S5-40": func(p *mpi.Process) error {
			n, rounds := 16, soaktest.Choose(4, 2)
			parents := make([]*mpi.Comm, n)
			for i := range parents {
				d, err := p.World().Dup()
				if err != nil {
					return err
				}
				parents[i] = d
			}
			errs := make([]error, n)
			var all sync.WaitGroup
			for k := range n {
				i := (k + 5*p.World().Rank()) % n
				all.Go(func() { errs[i] = createOften(parents[i], i, rounds) })
			}
			all.Wait()
			for _, d := range parents {
				errs = append(errs, d.Free())
			}
			return errors.Join(errs...)
		},
		"S5-41": func(p *mpi.Process) error {
			w := p.World()
			var live []*mpi.Comm
			var full error
			for full == nil && len(live) < 5000 {
				d, err := w.Dup()
				if full = err; err == nil {
					live = append(live, d)
				}
			}
			if len(live) != 4092 {
				return fmt.Errorf("%d communicators: %w", len(live), full)
			}
			errs := []error{ofClass(full, mpi.ErrOther)}
			for range 3 {
				errs = append(errs, live[700].Free())
				d, err := w.Dup()
				if err != nil {
					return err
				}
				live[700] = d
				_, err = w.Split(0, 0)
				_, errGroup := w.CreateGroup(w.Group(), 0)
				errs = append(errs, ofClass(err, mpi.ErrOther), ofClass(errGroup, mpi.ErrOther), checkSum(d), checkSum(live[701]))
			}
			return errors.Join(errs...)
		},
	})
}

// createOften creates communicators in several ways, checks that messages stay in them, and frees them.
func createOften(c *mpi.Comm, i, rounds int) error {
	for round := range rounds {
		var d *mpi.Comm
		var err error
		switch (i + round) % 3 {
		case 0:
			d, err = c.Dup()
		case 1:
			d, err = c.Create(c.Group())
		default:
			d, err = c.CreateGroup(c.Group(), i)
		}
		if err != nil {
			return fmt.Errorf("goroutine %d, round %d: %w", i, round, err)
		}
		x := []int{i}
		if err := errors.Join(mpi.Bcast(d, x, 0), check(x[0] == i, "got the value of %d at %d", x[0], i), d.Free()); err != nil {
			return err
		}
	}
	return nil
}
