package mpi_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// inWorlds runs each statement in a world of n ranks.
func inWorlds(t *testing.T, n int, all map[string]func(p *mpi.Process) error) {
	t.Helper()
	for id, f := range byName(all) {
		t.Run(id, func(t *testing.T) { mpitest.Run(t, n, f) })
	}
}

// ranged checks the ranks in World of the processes of a group that a call with ranges returns.
func ranged(p *mpi.Process, want ...int) func(g *mpi.Group, err error) error {
	return func(g *mpi.Group, err error) error {
		if err != nil {
			return err
		}
		h, err := p.World().Group().Incl(want...)
		return errors.Join(err, check(g.Equal(h), "another group than %v, of %d", want, g.Size()))
	}
}

// notMade checks the error of a call that returns a group or a communicator, which must be nil.
func notMade[T any](class mpi.Class) func(x *T, err error) error {
	return func(x *T, err error) error {
		return errors.Join(ofClass(err, class), check(x == nil, "a result with %v", err))
	}
}

func TestGroupRanges(t *testing.T) {
	group := func(p *mpi.Process) *mpi.Group { return p.World().Group() }
	inWorlds(t, 6, map[string]func(p *mpi.Process) error{
		"S5-01": func(p *mpi.Process) error {
			return errors.Join(
				ranged(p, 0, 2, 4)(group(p).RangeIncl(mpi.Range{First: 0, Last: 5, Stride: 2})),
				ranged(p, 5, 3, 1, 0)(group(p).RangeIncl(mpi.Range{First: 5, Last: 1, Stride: -2}, mpi.Range{First: 0, Last: 0, Stride: 9})),
				ranged(p)(group(p).RangeIncl()))
		},
		"S5-02": func(p *mpi.Process) error {
			return errors.Join(
				ranged(p, 1, 3, 5)(group(p).RangeExcl(mpi.Range{First: 4, Last: 0, Stride: -2})),
				ranged(p, 0, 1, 2, 3, 4, 5)(group(p).RangeExcl()),
				ranged(p)(group(p).RangeExcl(mpi.Range{First: 0, Last: 5, Stride: 1})))
		},
		"S5-03": func(p *mpi.Process) error { // the last rank need not exist, unless it is one of the list
			return errors.Join(
				ranged(p, 1, 5)(group(p).RangeIncl(mpi.Range{First: 1, Last: 8, Stride: 4})),
				ranged(p, 3)(group(p).RangeIncl(mpi.Range{First: 3, Last: math.MaxInt, Stride: math.MaxInt})),
				ranged(p, 3)(group(p).RangeIncl(mpi.Range{First: 3, Last: math.MinInt + 4, Stride: math.MinInt})),
				ranged(p, 0, 1, 2, 4, 5)(group(p).RangeExcl(mpi.Range{First: 3, Last: -1, Stride: -9})))
		},
		"S5-04": func(p *mpi.Process) error {
			var errs []error
			for _, r := range []mpi.Range{{0, 6, 1}, {-1, 2, 1}, {6, 6, 1}, {5, -1, -1}, {0, math.MaxInt, 1}, {5, math.MinInt, -1},
				{math.MinInt, math.MaxInt, 1}, {math.MaxInt, math.MinInt, -1}, {0, math.MaxInt, math.MaxInt / 2}} {
				for _, f := range []func(...mpi.Range) (*mpi.Group, error){group(p).RangeIncl, group(p).RangeExcl} {
					if err := notMade[mpi.Group](mpi.ErrRank)(f(r)); err != nil {
						errs = append(errs, fmt.Errorf("%v: %w", r, err))
					}
				}
			}
			return errors.Join(errs...)
		},
		"S5-05": func(p *mpi.Process) error {
			twice := []mpi.Range{{0, 4, 2}, {5, 3, -1}}
			return errors.Join(notMade[mpi.Group](mpi.ErrRank)(group(p).RangeIncl(twice...)),
				notMade[mpi.Group](mpi.ErrRank)(group(p).RangeExcl(twice...)))
		},
		"S5-06": func(p *mpi.Process) error {
			var errs []error
			for _, r := range []mpi.Range{{0, 3, 0}, {2, 2, 0}, {3, 1, 1}, {1, 3, -1}} {
				errs = append(errs, notMade[mpi.Group](mpi.ErrArg)(group(p).RangeIncl(r)),
					notMade[mpi.Group](mpi.ErrArg)(group(p).RangeExcl(r)))
			}
			return errors.Join(errs...)
		},
	})
}

// compares checks the result of a comparison, which is the same in both directions.
func compares[T any](a, b T, compare func(T, T) (mpi.Comparison, error), want mpi.Comparison) error {
	x, err := compare(a, b)
	y, errBack := compare(b, a)
	return errors.Join(err, errBack, check(x == want && y == want, "%v and %v, want %v", x, y, want))
}

func TestCompare(t *testing.T) {
	groups := (*mpi.Group).Compare
	comms := (*mpi.Comm).Compare
	inWorlds(t, 3, map[string]func(p *mpi.Process) error{
		"S5-10": func(p *mpi.Process) error {
			g := p.World().Group()
			turned, err1 := g.Incl(2, 1, 0)
			part, err2 := g.Incl(0, 1)
			return errors.Join(err1, err2, compares(g, p.World().Group(), groups, mpi.Ident), compares(g, turned, groups, mpi.Similar),
				compares(g, part, groups, mpi.Unequal), compares(new(mpi.Group), new(mpi.Group), groups, mpi.Ident),
				compares(g, new(mpi.Group), groups, mpi.Unequal))
		},
		"S5-11": func(p *mpi.Process) error {
			_, err := p.World().Group().Compare(nil)
			_, errNil := (*mpi.Group)(nil).Compare(p.World().Group())
			return errors.Join(ofClass(err, mpi.ErrGroup), ofClass(errNil, mpi.ErrGroup))
		},
		"S5-12": func(p *mpi.Process) error {
			w := p.World()
			d, err1 := w.Dup()
			turned, err2 := w.Split(0, -w.Rank())
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			return errors.Join(compares(w, w, comms, mpi.Ident), compares(w, d, comms, mpi.Congruent),
				compares(w, turned, comms, mpi.Similar), compares(w, p.Self(), comms, mpi.Unequal), turned.Free(), d.Free())
		},
		"S5-13": func(p *mpi.Process) error {
			d, err := p.World().Dup()
			if err := errors.Join(err, d.Free()); err != nil {
				return err
			}
			_, err1 := d.Compare(p.World())
			_, err2 := p.World().Compare(d)
			_, err3 := p.World().Compare(nil)
			return errors.Join(ofClass(err1, mpi.ErrComm), ofClass(err2, mpi.ErrComm), ofClass(err3, mpi.ErrComm))
		},
	})
}

// TestCompareIntercomms: intercommunicators are compared by both groups.
func TestCompareIntercomms(t *testing.T) {
	t.Run("S5-14", func(t *testing.T) {
		withIntercomm(t, func(_ *mpi.Process, s *mpi.Session, c *mpi.Comm) error {
			d, err := c.Dup()
			if err != nil {
				return err
			}
			m, err := c.Merge(c.Size() == 2)
			if err != nil {
				return err
			}
			comms := (*mpi.Comm).Compare
			return errors.Join(compares(c, c, comms, mpi.Ident), compares(c, d, comms, mpi.Congruent),
				compares(c, m, comms, mpi.Unequal), m.Free(), d.Free())
		})
	})
}

// made checks a communicator of these ranks of World, which is nil at others, and frees it.
func made(p *mpi.Process, c *mpi.Comm, err error, ranks ...int) error {
	if err != nil || slices.Contains(ranks, p.World().Rank()) != (c != nil) {
		return fmt.Errorf("ranks %v: %v, %w", ranks, c, err)
	}
	if c == nil {
		return nil
	}
	return errors.Join(checkProcesses(c, p, ranks...), c.Free())
}

// severalAtOnce creates communicators of the odd ranks in reverse order, and of the even ones, in one call.
func severalAtOnce(f func(*mpi.Comm, *mpi.Group) (*mpi.Comm, error)) func(p *mpi.Process) error {
	return func(p *mpi.Process) error {
		w, ranks := p.World(), []int{0, 2, 4}
		if w.Rank()%2 == 1 {
			ranks = []int{5, 3, 1}
		}
		g, err := w.Group().Incl(ranks...)
		if err != nil {
			return err
		}
		c, err := f(w, g)
		return made(p, c, err, ranks...)
	}
}

// TestCreate: communicators of groups, by all processes of the communicator.
func TestCreate(t *testing.T) {
	inWorlds(t, 6, map[string]func(p *mpi.Process) error{
		"S5-20": severalAtOnce((*mpi.Comm).Create),
		"S5-21": func(p *mpi.Process) error { // all give the same group, to which some do not belong
			g, err := p.World().Group().RangeIncl(mpi.Range{First: 4, Last: 0, Stride: -2})
			if err != nil {
				return err
			}
			c, err := p.World().Create(g)
			return made(p, c, err, 4, 2, 0)
		},
		"S5-22": func(p *mpi.Process) error {
			c, err := p.World().Create(new(mpi.Group))
			return errors.Join(err, check(c == nil, "a communicator without ranks"))
		},
		"S5-26": func(p *mpi.Process) error { // attributes and names stay behind
			k := mpi.NewKeyval(p, mpi.DupCopy[int], nil)
			c, err := p.World().Dup()
			if err := errors.Join(err, k.Set(c, 3)); err != nil {
				return err
			}
			d, err := c.Create(c.Group())
			if err != nil {
				return err
			}
			e, err := c.CreateGroup(c.Group(), 0)
			return errors.Join(err, holds(k, d, -1), holds(k, e, -1), e.Free(), d.Free(), c.Free())
		},
	})
}

// TestCreateRefuses: a group that is wrong at some ranks is an error at all.
func TestCreateRefuses(t *testing.T) {
	inWorlds(t, 6, map[string]func(p *mpi.Process) error{
		"S5-23": func(p *mpi.Process) error { // foreign processes, at one rank
			w := p.World()
			half, err := w.Split(w.Rank()/3, 0)
			if err != nil {
				return err
			}
			g := half.Group()
			if w.Rank()%3 == 1 {
				g = w.Group()
			}
			return errors.Join(notMade[mpi.Comm](mpi.ErrGroup)(half.Create(g)), checkUsable(half), half.Free())
		},
		"S5-24": func(p *mpi.Process) error { // the ranks of a group give different groups
			w := p.World()
			ranks, class := []int{0, 1, 2}, mpi.ErrGroup
			switch w.Rank() {
			case 1:
				ranks = []int{2, 1, 0}
			case 3, 4, 5:
				ranks, class = []int{3, 4, 5}, mpi.ErrOther
			}
			g, err := w.Group().Incl(ranks...)
			return errors.Join(err, notMade[mpi.Comm](class)(w.Create(g)), checkUsable(w))
		},
		"S5-25": func(p *mpi.Process) error {
			var g *mpi.Group
			if p.World().Rank() != 3 {
				g = p.World().Group()
			}
			d, err := p.World().Dup()
			if err != nil {
				return err
			}
			// The others are of the group that rank 3 does not give.
			err = notMade[mpi.Comm](mpi.ErrGroup)(p.World().Create(g))
			return errors.Join(err, d.Free(), notMade[mpi.Comm](mpi.ErrComm)(d.Create(g)),
				notMade[mpi.Comm](mpi.ErrComm)(d.CreateGroup(g, 0)))
		},
	})
}

// TestCreateGroup: communicators of groups, by the processes of the group only.
func TestCreateGroup(t *testing.T) {
	inWorlds(t, 6, map[string]func(p *mpi.Process) error{
		"S5-30": severalAtOnce(func(c *mpi.Comm, g *mpi.Group) (*mpi.Comm, error) { return c.CreateGroup(g, 5) }),
		"S5-31": func(p *mpi.Process) error { // only the processes of the group call it
			w := p.World()
			g, err := w.Group().Incl(3, 1)
			if err != nil {
				return err
			}
			if r := w.Rank(); r != 3 && r != 1 {
				return nil
			}
			c, err := w.CreateGroup(g, 0)
			return made(p, c, err, 3, 1)
		},
		"S5-32": func(p *mpi.Process) error { // local for others
			g, err := p.World().Group().Excl(p.World().Rank())
			if err != nil {
				return err
			}
			c, err := p.World().CreateGroup(g, 0)
			d, errEmpty := p.World().CreateGroup(new(mpi.Group), 0)
			return errors.Join(err, errEmpty, check(c == nil && d == nil, "a communicator without this process"))
		},
		"S5-33": func(p *mpi.Process) error {
			w := p.World()
			half, err := w.Split(w.Rank()/3, 0)
			if err != nil {
				return err
			}
			return errors.Join(notMade[mpi.Comm](mpi.ErrGroup)(half.CreateGroup(w.Group(), 0)),
				notMade[mpi.Comm](mpi.ErrGroup)(half.CreateGroup(nil, 0)),
				notMade[mpi.Comm](mpi.ErrTag)(half.CreateGroup(half.Group(), -1)),
				notMade[mpi.Comm](mpi.ErrTag)(half.CreateGroup(half.Group(), math.MaxInt32+1)), checkUsable(half), half.Free())
		},
		"S5-35": func(p *mpi.Process) error { // messages with the same tag are separate
			w := p.World()
			next, prev := (w.Rank()+1)%w.Size(), (w.Rank()+w.Size()-1)%w.Size()
			if err := mpi.Send(w, []int{7}, next, 5); err != nil {
				return err
			}
			c, err := w.CreateGroup(w.Group(), 5)
			x := []int{0}
			_, errRecv := mpi.Recv(w, x, prev, 5)
			return errors.Join(errRecv, check(x[0] == 7, "got %d", x[0]), made(p, c, err, 0, 1, 2, 3, 4, 5))
		},
	})
}

// TestCreateGroupTags: goroutines create communicators of one group at the same time.
func TestCreateGroupTags(t *testing.T) {
	inWorlds(t, 6, map[string]func(p *mpi.Process) error{
		"S5-34": func(p *mpi.Process) error { // goroutines, kept apart by tags, in another order at each rank
			const n = 12
			w, errs := p.World(), make([]error, n)
			var all sync.WaitGroup
			for i := range n {
				tag := (i + w.Rank()*5) % n
				all.Go(func() {
					c, err := w.CreateGroup(w.Group(), tag)
					if err != nil {
						errs[tag] = err
						return
					}
					x := []int{tag}
					errs[tag] = errors.Join(mpi.Bcast(c, x, 0), check(x[0] == tag, "tag %d met %d", tag, x[0]), c.Free())
				})
			}
			all.Wait()
			return errors.Join(errs...)
		},
	})
}

// TestCreateOtherSession: groups of other sessions are refused.
func TestCreateOtherSession(t *testing.T) {
	t.Run("S5-36", func(t *testing.T) {
		runSessionsOnly(t, 3, inSession(func(p *mpi.Process, s *mpi.Session) error {
			c, err := fromSet(s, "mpi://WORLD", "t")
			other, errOpen := p.OpenSession(nil)
			if err := errors.Join(err, errOpen); err != nil {
				return err
			}
			g, err := other.Group("mpi://WORLD")
			return errors.Join(err, notMade[mpi.Comm](mpi.ErrGroup)(c.Create(g)), notMade[mpi.Comm](mpi.ErrGroup)(c.CreateGroup(g, 0)),
				other.Close(), c.Free())
		}))
	})
}

// TestIntercommCreate: Create and Split on an intercommunicator.
func TestIntercommCreate(t *testing.T) {
	withBoth := func(id string, f func(p *mpi.Process, c *mpi.Comm, air bool) error) {
		t.Run(id, func(t *testing.T) {
			withIntercomm(t, func(p *mpi.Process, _ *mpi.Session, c *mpi.Comm) error {
				return errors.Join(f(p, c, c.Size() == 2), exchange(c, 7))
			})
		})
	}
	withBoth("S6-01", func(_ *mpi.Process, c *mpi.Comm, air bool) error {
		ranks := []int{2, 0}
		if air {
			ranks = []int{1}
		}
		g, err := c.Group().Incl(ranks...)
		if err != nil {
			return err
		}
		d, err := c.Create(g)
		if err != nil || slices.Contains(ranks, c.Rank()) != (d != nil) {
			return fmt.Errorf("%v, %w", d, err)
		}
		if d == nil {
			return nil
		}
		fits := d.Remote() && d.Group().Equal(g) && d.RemoteSize() == 3-len(ranks)
		return errors.Join(check(fits, "groups"), exchange(d, 1), d.Free())
	})
	withBoth("S6-02", func(_ *mpi.Process, c *mpi.Comm, air bool) error { // one side has no process
		g := c.Group()
		if air {
			g = new(mpi.Group)
		}
		d, err := c.Create(g)
		return errors.Join(err, check(d == nil, "an intercommunicator with one side"))
	})
	withBoth("S6-03", func(_ *mpi.Process, c *mpi.Comm, air bool) error { // the ranks of a side give different groups
		g, class := c.Group(), mpi.ErrOther
		if !air {
			class = mpi.ErrGroup
			if c.Rank() == 1 {
				g = new(mpi.Group)
			}
		}
		return errors.Join(notMade[mpi.Comm](class)(c.Create(g)), notMade[mpi.Comm](mpi.ErrGroup)(c.Create(c.RemoteGroup())))
	})
	withBoth("S6-04", func(_ *mpi.Process, c *mpi.Comm, _ bool) error {
		d, err := c.Split(c.Rank(), 0) // rank 2 of ocean is alone
		if err != nil || (d == nil) != (c.Rank() == 2) {
			return fmt.Errorf("%v, %w", d, err)
		}
		if d == nil {
			return nil
		}
		return errors.Join(check(d.Size() == 1 && d.RemoteSize() == 1, "%d and %d", d.Size(), d.RemoteSize()), exchange(d, 2), d.Free())
	})
	withBoth("S6-05", func(_ *mpi.Process, c *mpi.Comm, _ bool) error { // by key in each group
		d, err := c.Split(3, -c.Rank())
		if err != nil {
			return err
		}
		e, err := c.SplitType(mpi.Undefined, 0, nil)
		return errors.Join(err, check(e == nil, "Undefined"), check(d.Rank() == c.Size()-1-c.Rank() && d.RemoteSize() == c.RemoteSize(),
			"rank %d became %d", c.Rank(), d.Rank()), exchange(d, 3), d.Free())
	})
	withBoth("S6-06", func(_ *mpi.Process, c *mpi.Comm, _ bool) error {
		return errors.Join(notMade[mpi.Comm](mpi.ErrComm)(c.CreateGroup(c.Group(), 0)))
	})
}
