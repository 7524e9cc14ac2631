package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
)

// multigraph are edges of 4 ranks: several between two ranks, and from a rank to itself.
var multigraph = []mpi.Edge{{From: 0, To: 1}, {From: 1, To: 0}, {From: 0, To: 1}, {From: 2, To: 2}, {From: 2, To: 2},
	{From: 3, To: 1}, {From: 2, To: 0}, {From: 0, To: 2}, {From: 0, To: 1}}

// neighborhoods are communicators with topologies, of 4 ranks.
var neighborhoods = map[string]func(w *mpi.Comm) (*mpi.Comm, error){
	"torus of 2 x 2": func(w *mpi.Comm) (*mpi.Comm, error) {
		return w.CartCreate([]int{2, 2}, []bool{true, true}, mpi.KeepRanks)
	},
	"grid of 4 x 1": func(w *mpi.Comm) (*mpi.Comm, error) {
		return w.CartCreate([]int{4, 1}, []bool{false, true}, mpi.KeepRanks)
	},
	"ring": func(w *mpi.Comm) (*mpi.Comm, error) {
		return w.CartCreate([]int{4}, []bool{true}, mpi.KeepRanks)
	},
	"point": func(w *mpi.Comm) (*mpi.Comm, error) {
		return w.CartCreate([]int{1}, []bool{true}, mpi.KeepRanks)
	},
	"graph": func(w *mpi.Comm) (*mpi.Comm, error) {
		return w.GraphCreate([][]int{{1, 2, 3}, {0}, {0, 2}, {0}}, mpi.KeepRanks)
	},
	"distributed graph": func(w *mpi.Comm) (*mpi.Comm, error) {
		var mine []mpi.Edge
		for _, e := range multigraph {
			if e.From == w.Rank() {
				mine = append(mine, e)
			}
		}
		return w.DistGraphCreate(mine, false, nil, mpi.KeepRanks)
	},
}

// sentTo returns the number of the destination of a source whose block arrives from source i of this rank: in a grid the opposite
// direction, and otherwise that of the edge with the same number among the edges between the two.
func sentTo(c *mpi.Comm, grid bool, lists [][]int, sources []int, i int) int {
	if grid {
		return i ^ 1
	}
	edge := 0
	for _, s := range sources[:i] {
		if s == sources[i] {
			edge++
		}
	}
	for at, d := range lists[sources[i]] {
		if d == c.Rank() {
			if edge == 0 {
				return at
			}
			edge--
		}
	}
	return -1
}

// neighborBlock returns n numbers for the destination at of a rank.
func neighborBlock(rank, at, n int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = 1_000_000*rank + 10_000*at + i
	}
	return x
}

// neighborForms are the forms of a neighborhood collective.
type neighborForms struct {
	blocking   func() error
	immediate  func() (mpi.Request, error)
	persistent func() (mpi.Request, error)
}

// run calls form i. A persistent one is started twice.
func (f neighborForms) run(i int) error {
	switch i {
	case 0:
		return f.blocking()
	case 1:
		r, err := f.immediate()
		_, err1 := r.Wait()
		return errors.Join(err, err1)
	}
	r, err := f.persistent()
	if err != nil {
		return err
	}
	err = r.Start()
	_, err1 := r.Wait()
	err2 := r.Start()
	_, err3 := r.Wait()
	return errors.Join(err, err1, err2, err3, r.Free())
}

// neighborAll makes all neighborhood collectives on blocks of n elements, in one form, and compares what arrives.
func neighborAll(c *mpi.Comm, grid bool, lists [][]int, n, form int) error {
	nb, err := c.Neighbors()
	if err != nil {
		return err
	}
	in, out := len(nb.Sources), len(nb.Destinations)
	var src, all, gathered []int
	counts, displs := slices.Repeat([]int{n}, in), make([]int, in)
	for i := range displs {
		displs[i] = (in - 1 - i) * n
	}
	var reversed []int
	for i := range out {
		src = append(src, neighborBlock(c.Rank(), i, n)...)
	}
	for i, s := range nb.Sources {
		block, own := make([]int, n), make([]int, n)
		if s >= 0 {
			block, own = neighborBlock(s, sentTo(c, grid, lists, nb.Sources, i), n), neighborBlock(s, 9, n)
		}
		all, gathered, reversed = append(all, block...), append(gathered, own...), append(block, reversed...)
	}
	mine := neighborBlock(c.Rank(), 9, n)
	a, b, g, h := make([]int, in*n), make([]int, in*n), make([]int, in*n), make([]int, in*n)
	outCounts := slices.Repeat([]int{n}, out)
	forms := []neighborForms{
		{func() error { return mpi.NeighborAlltoall(c, a, src) },
			func() (mpi.Request, error) { return mpi.IneighborAlltoall(c, a, src) },
			func() (mpi.Request, error) { return mpi.NeighborAlltoallInit(c, a, src) }},
		{func() error { return mpi.NeighborAlltoallv(c, b, counts, displs, src, outCounts, nil) },
			func() (mpi.Request, error) { return mpi.IneighborAlltoallv(c, b, counts, displs, src, outCounts, nil) },
			func() (mpi.Request, error) {
				return mpi.NeighborAlltoallvInit(c, b, counts, displs, src, outCounts, nil)
			}},
		{func() error { return mpi.NeighborAllgather(c, g, mine) },
			func() (mpi.Request, error) { return mpi.IneighborAllgather(c, g, mine) },
			func() (mpi.Request, error) { return mpi.NeighborAllgatherInit(c, g, mine) }},
		{func() error { return mpi.NeighborAllgatherv(c, h, counts, nil, mine) },
			func() (mpi.Request, error) { return mpi.IneighborAllgatherv(c, h, counts, nil, mine) },
			func() (mpi.Request, error) { return mpi.NeighborAllgathervInit(c, h, counts, nil, mine) }},
	}
	errs := []error{neighborViews(c, neighborData{src, all, mine, gathered}, n, form)}
	for _, f := range forms {
		errs = append(errs, f.run(form))
	}
	return errors.Join(append(errs, check(slices.Equal(a, all), "NeighborAlltoall: %v, want %v", a, all),
		check(slices.Equal(b, reversed), "NeighborAlltoallv: %v, want %v", b, reversed),
		check(slices.Equal(g, gathered), "NeighborAllgather: %v, want %v", g, gathered),
		check(slices.Equal(h, gathered), "NeighborAllgatherv: %v, want %v", h, gathered))...)
}

// neighborData is what a rank sends to its destinations, and what arrives from its sources; and
// the same for an allgather.
type neighborData struct{ src, all, mine, gathered []int }

// neighborViews is neighborAll for views: columns of arrays, beside columns that do not change.
func neighborViews(c *mpi.Comm, d neighborData, n, form int) error {
	column := func(x []int) (mpi.View, []int) {
		if len(x) == 0 {
			return mpi.ViewOf(x), nil
		}
		wide := make([]int, 2*len(x))
		for i := range x {
			wide[2*i], wide[2*i+1] = x[i], -7
		}
		return mpi.ArrayOf(wide, len(x), 2).Col(0), wide
	}
	columns := func(x []int) (views []mpi.View, wide [][]int) {
		for at := 0; n != 0 && at < len(x); at += n {
			v, w := column(x[at:][:n])
			views, wide = append(views, v), append(wide, w)
		}
		return views, wide
	}
	if n == 0 {
		return nil
	}
	src, _ := column(d.src)
	srcs, _ := columns(d.src)
	mine, _ := column(d.mine)
	a, wideA := column(make([]int, len(d.all)))
	g, wideG := column(make([]int, len(d.all)))
	w, wideW := columns(make([]int, len(d.all)))
	h, wideH := columns(make([]int, len(d.all)))
	var errs []error
	for _, f := range []neighborForms{
		{func() error { return c.NeighborAlltoall(a, src) },
			func() (mpi.Request, error) { return c.IneighborAlltoall(a, src) },
			func() (mpi.Request, error) { return c.NeighborAlltoallInit(a, src) }},
		{func() error { return c.NeighborAlltoallw(w, srcs) },
			func() (mpi.Request, error) { return c.IneighborAlltoallw(w, srcs) },
			func() (mpi.Request, error) { return c.NeighborAlltoallwInit(w, srcs) }},
		{func() error { return c.NeighborAllgather(g, mine) },
			func() (mpi.Request, error) { return c.IneighborAllgather(g, mine) },
			func() (mpi.Request, error) { return c.NeighborAllgatherInit(g, mine) }},
		{func() error { return c.NeighborAllgatherv(h, mine) },
			func() (mpi.Request, error) { return c.IneighborAllgatherv(h, mine) },
			func() (mpi.Request, error) { return c.NeighborAllgathervInit(h, mine) }},
	} {
		errs = append(errs, f.run(form))
	}
	_, all := column(d.all)
	_, gathered := column(d.gathered)
	return errors.Join(append(errs, check(slices.Equal(wideA, all), "NeighborAlltoall of views: %v, want %v", wideA, all),
		check(slices.Equal(slices.Concat(wideW...), all), "NeighborAlltoallw: %v, want %v", wideW, all),
		check(slices.Equal(wideG, gathered), "NeighborAllgather of views: %v, want %v", wideG, gathered),
		check(slices.Equal(slices.Concat(wideH...), gathered), "NeighborAllgatherv of views: %v, want %v", wideH, gathered))...)
}

// TestNeighborCollectives: blocks move along the edges of each topology, in all forms. What is sent in one direction of a grid
// arrives from the other, also if both neighbors are the same rank. Unless IBRUN_SOAK is set, blocks are long only in a torus and
// in a distributed graph, which have several edges between two ranks.
func TestNeighborCollectives(t *testing.T) {
	for name, create := range neighborhoods {
		t.Run(name, func(t *testing.T) {
			checkedAndNot(t, 4, func(p *mpi.Process) error {
				c, err := create(p.World())
				if err != nil || c == nil {
					return err
				}
				kind, err := c.TopoTest()
				if err != nil {
					return err
				}
				nb, err := c.Neighbors()
				if err != nil {
					return err
				}
				lists, err := mpi.AllgatherValue(c, nb.Destinations)
				errs := []error{err}
				lengths := soaktest.Choose([]int{0, 1, 5, 9000}, []int{0, 1, 9000})
				if !soaktest.On() && name != "torus of 2 x 2" && name != "distributed graph" {
					lengths = []int{0, 5}
				}
				for _, n := range lengths {
					for form := range 3 {
						if err := neighborAll(c, kind == mpi.Cart, lists, n, form); err != nil {
							errs = append(errs, fmt.Errorf("rank %d, %d elements, form %d: %w", c.Rank(), n, form, err))
						}
					}
				}
				return errors.Join(append(errs, c.Free())...)
			})
		})
	}
}

// TestNeighborArguments: wrong arguments are errors before anything is sent.
func TestNeighborArguments(t *testing.T) {
	runUnchecked(t, 2, func(p *mpi.Process) error {
		w := p.World()
		c, err := w.CartCreate([]int{2}, []bool{true}, mpi.KeepRanks)
		if err != nil {
			return err
		}
		x, y := make([]int, 4), make([]int, 4)
		_, err1 := mpi.IneighborAllgather(c, x, y)
		_, err2 := mpi.NeighborAlltoallInit(c, x, y[:3])
		return errors.Join(wantClass("no topology", mpi.NeighborAlltoall(w, x, y), mpi.ErrTopology),
			wantClass("dst", err1, mpi.ErrCount), wantClass("src", err2, mpi.ErrCount),
			wantClass("in place", mpi.NeighborAlltoall(c, x, x), mpi.ErrBuffer),
			wantClass("no counts", mpi.NeighborAllgatherv(c, x, nil, nil, y), mpi.ErrCount),
			wantClass("counts", mpi.NeighborAlltoallv(c, x, []int{2, 3}, nil, y, []int{2, 2}, nil), mpi.ErrCount),
			wantClass("displacements", mpi.NeighborAlltoallv(c, x, []int{2, 2}, []int{0}, y, []int{2, 2}, nil), mpi.ErrCount),
			mpi.NeighborAlltoall(c, x, y), c.Free())
	})
}
