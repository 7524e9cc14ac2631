package mpi_test

import (
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/mpi"
)

// inHalves calls f with a communicator of the even or the odd ranks of World, and frees it.
func inHalves(f func(p *mpi.Process, half *mpi.Comm) error) func(p *mpi.Process) error {
	return func(p *mpi.Process) error {
		half, err := p.World().Split(p.World().Rank()%2, 0)
		if err != nil {
			return err
		}
		return errors.Join(f(p, half), half.Free())
	}
}

// bridge connects the halves; the leaders are the ranks 2 and 1 of World.
func bridge(p *mpi.Process, half *mpi.Comm, tag int) (*mpi.Comm, error) {
	if p.World().Rank()%2 == 0 {
		return half.CreateIntercomm(1, p.World(), 1, tag)
	}
	return half.CreateIntercomm(0, p.World(), 2, tag)
}

func TestCreateIntercomm(t *testing.T) {
	inWorlds(t, 5, map[string]func(p *mpi.Process) error{
		"S6-20": inHalves(func(p *mpi.Process, half *mpi.Comm) error {
			c, err := bridge(p, half, 7)
			if err != nil {
				return err
			}
			m, err := c.Merge(half.Size() == 2)
			if err != nil {
				return err
			}
			return errors.Join(check(c.Remote() && c.Group().Equal(half.Group()) && c.RemoteSize() == 5-half.Size(), "groups"),
				exchange(c, 1), c.Barrier(), checkProcesses(m, p, 0, 2, 4, 1, 3), m.Free(), c.Free())
		}),
		"S6-21": inHalves(func(p *mpi.Process, half *mpi.Comm) error { // goroutines, kept apart by tags
			const n = 4
			errs := make([]error, n)
			comms := make([]*mpi.Comm, n)
			for i := range comms { // collectives of one communicator are not concurrent
				d, err := half.Dup()
				if err != nil {
					return err
				}
				comms[i] = d
			}
			var all sync.WaitGroup
			for i, d := range comms {
				all.Go(func() {
					c, err := bridge(p, d, i)
					if errs[i] = err; err == nil {
						errs[i] = errors.Join(exchange(c, 100*i), c.Free(), d.Free())
					}
				})
			}
			all.Wait()
			return errors.Join(errs...)
		}),
	})
}

// TestCreateIntercommRefuses: what is wrong at some ranks is an error at all, and no rank blocks.
func TestCreateIntercommRefuses(t *testing.T) {
	inWorlds(t, 5, map[string]func(p *mpi.Process) error{
		"S6-22": inHalves(func(p *mpi.Process, half *mpi.Comm) error { // wrong at every rank or at the leaders
			w, none := p.World(), (*mpi.Comm)(nil)
			create := func(class mpi.Class, leader int, peer *mpi.Comm, remote, tag int) error {
				if class != mpi.ErrGroup && leader >= 0 && leader < half.Size() && half.Rank() != leader {
					class = mpi.ErrOther
				}
				return notMade[mpi.Comm](class)(half.CreateIntercomm(leader, peer, remote, tag))
			}
			me := 0
			if half.Size() == 2 {
				me = 1
			}
			return errors.Join(create(mpi.ErrRank, -1, w, 0, 0), create(mpi.ErrRank, half.Size(), w, 0, 0),
				create(mpi.ErrComm, 0, none, 0, 0), create(mpi.ErrRank, 0, w, 5, 0), create(mpi.ErrRank, 0, w, mpi.AnySource, 0),
				create(mpi.ErrRank, 0, w, me, 0), create(mpi.ErrTag, 0, w, 1-me, math.MaxInt32+1), create(mpi.ErrTag, 0, w, 1-me, -1))
		}),
		"S6-23": inHalves(func(p *mpi.Process, half *mpi.Comm) error { // different leaders in one half: no rank blocks
			leader, remote := 0, 0
			if half.Size() == 3 {
				remote = 1
				if half.Rank() == 2 {
					leader = 1
				}
			}
			c, err := half.CreateIntercomm(leader, p.World(), remote, 0)
			return errors.Join(check(c == nil && err != nil, "made with different leaders"),
				check(half.Size() == 2 || errors.Is(err, mpi.ErrRank), "%v", err))
		}),
		"S6-24": func(p *mpi.Process) error { // rank 2 is in both groups
			w := p.World()
			create := func(leader, remote int, ranks ...int) error {
				g, err := w.Group().Incl(ranks...)
				if err != nil {
					return err
				}
				c, err := w.CreateGroup(g, leader)
				if c == nil || err != nil {
					return err
				}
				return errors.Join(notMade[mpi.Comm](mpi.ErrGroup)(c.CreateIntercomm(leader, w, remote, 3)), c.Free())
			}
			var errs [2]error
			var both sync.WaitGroup
			both.Go(func() { errs[0] = create(0, 3, 0, 1, 2) })
			both.Go(func() { errs[1] = create(1, 0, 2, 3, 4) })
			both.Wait()
			return errors.Join(errs[:]...)
		},
		"S6-25": inHalves(func(p *mpi.Process, half *mpi.Comm) error { // the other group leaves the World Model
			if half.Size() == 2 {
				return nil
			}
			return notMade[mpi.Comm](mpi.ErrProcFailed)(half.CreateIntercomm(0, p.World(), 1, 0))
		}),
	})
}

// TestInterMismatch: lengths that do not fit end the collectives of the intercommunicator, and no rank waits for ever.
func TestInterMismatch(t *testing.T) {
	inWorlds(t, 5, map[string]func(p *mpi.Process) error{"S6-12": inHalves(func(p *mpi.Process, half *mpi.Comm) error {
		c, err := bridge(p, half, 7)
		if err != nil {
			return err
		}
		root, n := 0, 3
		if half.Size() == 2 {
			if root, n = mpi.ProcNull, 4; c.Rank() == 0 {
				root = mpi.Root
			}
		}
		if err = mpi.Bcast(c, make([]int, n), root); half.Size() == 3 && err == nil {
			return errors.New("a broadcast of 4 elements into 3 succeeded")
		}
		return check(c.Barrier() != nil, "a barrier after it succeeded")
	})})
}
