package mpi_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// checkNeighbors checks the edges that DistGraphNeighbors returns.
func checkNeighbors(c *mpi.Comm, want mpi.Neighbors) error {
	n, err := c.DistGraphNeighbors()
	same := fmt.Sprintf("%#v", n) == fmt.Sprintf("%#v", want) // nil is not empty
	return errors.Join(err, check(same, "rank %d finds %+v, want %+v", c.Rank(), n, want))
}

// ringNeighbors returns a ring in both directions, with weight 10 to the right and 20 to the left.
func ringNeighbors(c *mpi.Comm) mpi.Neighbors {
	left, right := (c.Rank()+c.Size()-1)%c.Size(), (c.Rank()+1)%c.Size()
	return mpi.Neighbors{
		Sources: []int{left, right}, SourceWeights: []int{10, 20},
		Destinations: []int{right, left}, DestinationWeights: []int{10, 20},
	}
}

// graphs are the ways to make a communicator with a ring.
var graphs = map[string]func(c *mpi.Comm, info *mpi.Info) (*mpi.Comm, error){
	"S2-12": func(c *mpi.Comm, info *mpi.Info) (*mpi.Comm, error) {
		return c.DistGraphCreateAdjacent(ringNeighbors(c), info, mpi.KeepRanks)
	},
	"S2-11": func(c *mpi.Comm, info *mpi.Info) (*mpi.Comm, error) {
		var edges []mpi.Edge
		if c.Rank() == c.Size()-1 { // one rank knows the whole graph
			for r := range c.Size() {
				edges = append(edges, mpi.Edge{From: r, To: (r + 1) % c.Size(), Weight: 10})
			}
			for r := range c.Size() {
				edges = append(edges, mpi.Edge{From: r, To: (r + c.Size() - 1) % c.Size(), Weight: 20})
			}
		}
		return c.DistGraphCreate(edges, true, info, mpi.KeepRanks)
	},
}

// TestDistGraphHints: hints are applied, and none are inherited from the old communicator.
func TestDistGraphHints(t *testing.T) {
	all := map[string]func(p *mpi.Process) error{}
	for id, create := range graphs {
		all[id] = func(p *mpi.Process) error {
			if err := p.World().SetInfo(info("mpi_assert_no_any_tag", "true")); err != nil {
				return err
			}
			c, err := create(p.World(), info("mpi_assert_no_any_source", "true", "nobody_knows_this", "1"))
			d, err2 := create(p.World(), nil)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			var errs []error
			for k, of := range []*mpi.Comm{c, d} {
				want := []string{"true", "false"}[k]
				i, err := of.GetInfo()
				source, _ := i.Get("mpi_assert_no_any_source")
				tag, _ := i.Get("mpi_assert_no_any_tag")
				_, unknown := i.Get("nobody_knows_this")
				errs = append(errs, err, check(source == want && tag == "false" && !unknown, "hints %s and %s", source, tag))
				errs = append(errs, checkSum(of), of.Free())
			}
			return errors.Join(errs...)
		}
	}
	statements(t, all)
}

// TestDistGraph: the communicator has the given edges. A duplicate has them too; other derived communicators do not.
func TestDistGraph(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		mpitest.Run(t, n, func(p *mpi.Process) error {
			w := p.World()
			var errs []error
			for _, id := range slices.Sorted(maps.Keys(graphs)) {
				c, err := graphs[id](w, nil)
				if err != nil {
					return err
				}
				d, err := c.Dup()
				if err != nil {
					return err
				}
				e, err := c.Split(0, 0)
				if err != nil {
					return err
				}
				_, none := e.DistGraphNeighbors()
				want := ringNeighbors(w)
				if id == "S2-11" && w.Rank() == w.Size()-1 || w.Size() <= 2 {
					want = mpi.Neighbors{} // in another order: looked at below
				}
				if want.Sources != nil {
					errs = append(errs, checkNeighbors(c, want), checkNeighbors(d, want))
				}
				got, err := d.DistGraphNeighbors()
				slices.Sort(got.Sources)
				sorted := slices.Sorted(slices.Values(ringNeighbors(w).Sources))
				errs = append(errs, err, ofClass(none, mpi.ErrTopology), check(slices.Equal(got.Sources, sorted), "%v", got.Sources))
				got.Sources[0] = 99 // is the caller's
				again, err := d.DistGraphNeighbors()
				errs = append(errs, err, check(again.Sources[0] != 99, "changed by the caller"))
				errs = append(errs, checkProcesses(c, p, all(n)...), e.Free(), d.Free(), c.Free())
			}
			return errors.Join(errs...)
		})
	}
}

func all(n int) (ranks []int) {
	for r := range n {
		ranks = append(ranks, r)
	}
	return ranks
}

// TestDistGraphShapes: edges from anywhere, several of them, to oneself, none, and without weights.
func TestDistGraphShapes(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		w := p.World()
		given := [][]mpi.Edge{{{0, 1, 5}, {0, 1, 5}, {2, 2, 7}}, nil, {{1, 0, 3}, {0, 1, 1}}}[w.Rank()]
		plain, err := w.DistGraphCreate(given, false, nil, mpi.KeepRanks)
		if err != nil {
			return err
		}
		heavy, err := w.DistGraphCreate(given, true, nil, mpi.KeepRanks)
		if err != nil {
			return err
		}
		empty, err := w.DistGraphCreateAdjacent(mpi.Neighbors{}, nil, mpi.KeepRanks)
		if err != nil {
			return err
		}
		return errors.Join(
			checkNeighbors(plain, []mpi.Neighbors{
				{Sources: []int{1}, Destinations: []int{1, 1, 1}}, {Sources: []int{0, 0, 0}, Destinations: []int{0}},
				{Sources: []int{2}, Destinations: []int{2}},
			}[w.Rank()]),
			checkNeighbors(heavy, []mpi.Neighbors{
				{Sources: []int{1}, SourceWeights: []int{3}, Destinations: []int{1, 1, 1}, DestinationWeights: []int{5, 5, 1}},
				{Sources: []int{0, 0, 0}, SourceWeights: []int{5, 5, 1}, Destinations: []int{0}, DestinationWeights: []int{3}},
				{Sources: []int{2}, SourceWeights: []int{7}, Destinations: []int{2}, DestinationWeights: []int{7}},
			}[w.Rank()]),
			checkNeighbors(empty, mpi.Neighbors{}), plain.Free(), heavy.Free(), empty.Free())
	})
}

// TestDistGraphWrong: an invalid argument at one rank is an error at all ranks, and none blocks.
func TestDistGraphWrong(t *testing.T) {
	adjacent := func(n mpi.Neighbors) func(c *mpi.Comm) error {
		return func(c *mpi.Comm) error {
			mine := mpi.Neighbors{}
			if c.Rank() == 1 {
				mine = n
			}
			_, err := c.DistGraphCreateAdjacent(mine, nil, mpi.KeepRanks)
			return err
		}
	}
	anywhere := func(e mpi.Edge) func(c *mpi.Comm) error {
		return func(c *mpi.Comm) error {
			_, err := c.DistGraphCreate([]mpi.Edge{e}[:c.Rank()&1], true, nil, mpi.KeepRanks)
			return err
		}
	}
	for name, x := range byName(map[string]struct {
		create       func(c *mpi.Comm) error
		there, other mpi.Class
	}{
		"source":         {adjacent(mpi.Neighbors{Sources: []int{3}}), mpi.ErrRank, mpi.ErrOther},
		"destination":    {adjacent(mpi.Neighbors{Destinations: []int{-1}}), mpi.ErrRank, mpi.ErrOther},
		"weights":        {adjacent(mpi.Neighbors{Sources: []int{0}, SourceWeights: []int{}}), mpi.ErrArg, mpi.ErrOther},
		"weight":         {adjacent(mpi.Neighbors{Sources: []int{0}, SourceWeights: []int{-1}}), mpi.ErrArg, mpi.ErrOther},
		"weights at one": {adjacent(mpi.Neighbors{SourceWeights: []int{}}), mpi.ErrArg, mpi.ErrArg},
		"edge from":      {anywhere(mpi.Edge{From: 3}), mpi.ErrRank, mpi.ErrOther},
		"edge to":        {anywhere(mpi.Edge{To: -3}), mpi.ErrRank, mpi.ErrOther},
		"edge's weight":  {anywhere(mpi.Edge{Weight: -1}), mpi.ErrArg, mpi.ErrOther},
	}) {
		t.Run(name, func(t *testing.T) {
			mpitest.Run(t, 3, func(p *mpi.Process) error {
				class := x.other
				if p.World().Rank() == 1 {
					class = x.there
				}
				return errors.Join(ofClass(x.create(p.World()), class), checkSum(p.World()))
			})
		})
	}
}
