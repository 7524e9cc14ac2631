package mpi_test

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestGraph: the graph of the example in MPI-5.0 §8.5.5, with several edges between two ranks, on more ranks than it has.
func TestGraph(t *testing.T) {
	given := [][]int{{1, 1, 3}, {0, 0}, {3}, {0, 2, 2}}
	mpitest.Run(t, 5, func(p *mpi.Process) error {
		w := p.World()
		mine := [][]int{{1, 1, 3}, {0, 0}, {3}, {0, 2, 2}}
		c, err := w.GraphCreate(mine, mpi.KeepRanks)
		if err != nil || w.Rank() == 4 {
			return errors.Join(err, check(c == nil, "rank 4 is in the graph"))
		}
		mine[0][0] = 2 // the communicator has its own
		d, err := c.Dup()
		if err != nil {
			return err
		}
		errs := []error{checkProcesses(c, p, all(4)...)}
		for _, c := range []*mpi.Comm{c, d} {
			kind, err := c.TopoTest()
			errs = append(errs, same("kind", err, kind, mpi.Graph))
			ranks, edges, err := c.GraphdimsGet()
			errs = append(errs, same("dimensions", err, [2]int{ranks, edges}, [2]int{4, 9}))
			whole, err := c.GraphGet()
			errs = append(errs, same("graph", err, whole, given))
			whole[1][0] = 2 // is the caller's
			for r := range 4 {
				list, err := c.GraphNeighbors(r)
				errs = append(errs, same("neighbors", err, list, given[r]))
				list[0] = 9
				n, err := c.GraphNeighborsCount(r)
				errs = append(errs, same("number of neighbors", err, n, len(given[r])))
			}
			n, err := c.Neighbors()
			errs = append(errs, same("own neighbors", err, n, mpi.Neighbors{Sources: given[c.Rank()], Destinations: given[c.Rank()]}))
			_, high := c.GraphNeighbors(4)
			_, low := c.GraphNeighborsCount(-1)
			_, cart := c.CartdimGet()
			errs = append(errs, ofClass(high, mpi.ErrRank), ofClass(low, mpi.ErrRank), ofClass(cart, mpi.ErrTopology))
		}
		return errors.Join(append(errs, d.Free(), c.Free())...)
	})
}

// TestGraphShapes: graphs without ranks, without edges, and with an edge from a rank to itself.
func TestGraphShapes(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		w := p.World()
		var errs []error
		for _, order := range []mpi.RankOrder{mpi.KeepRanks, mpi.Reorder} {
			none, err := w.GraphCreate(nil, order)
			errs = append(errs, err, check(none == nil, "a communicator without ranks"))
			for _, g := range [][][]int{{{}, nil}, {{0}, {1, 1}}} {
				c, err := w.GraphCreate(g, order)
				if err != nil {
					return err
				}
				errs = append(errs, checkSum(c), c.Free())
			}
		}
		return errors.Join(errs...)
	})
}

// TestGraphWrong: wrong graphs are errors of all ranks, and none blocks.
func TestGraphWrong(t *testing.T) {
	for name, x := range byName(map[string]struct {
		graph        [][]int
		there, other mpi.Class
	}{
		"neighbor":  {[][]int{{3}, {}, {}}, mpi.ErrRank, mpi.ErrOther},
		"negative":  {[][]int{{}, {mpi.ProcNull}, {}}, mpi.ErrRank, mpi.ErrOther},
		"large":     {[][]int{{}, {}, {}, {}}, mpi.ErrArg, mpi.ErrOther},
		"different": {[][]int{{1}, {}, {}}, mpi.ErrArg, mpi.ErrArg},
	}) {
		t.Run(name, func(t *testing.T) {
			mpitest.Run(t, 3, func(p *mpi.Process) error {
				w := p.World()
				g, class := [][]int{{}, {}, {}}, x.other
				if w.Rank() == 1 {
					g, class = x.graph, x.there
				}
				_, err := w.GraphCreate(g, mpi.Reorder)
				errs := []error{ofClass(err, class), checkSum(w)}
				if x.there != x.other {
					_, err := w.GraphMap(x.graph)
					errs = append(errs, ofClass(err, x.there))
				}
				return errors.Join(errs...)
			})
		})
	}
}
