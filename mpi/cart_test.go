package mpi_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// same returns an error unless the values are equal, of which nil and empty slices are not.
func same(what string, err error, got, want any) error {
	return errors.Join(err, check(reflect.DeepEqual(got, want), "%s: got %#v, want %#v", what, got, want))
}

// checkShift checks what CartShift returns.
func checkShift(c *mpi.Comm, dim, step, source, dest int) error {
	s, d, err := c.CartShift(dim, step)
	return same(fmt.Sprintf("rank %d: CartShift(%d, %d)", c.Rank(), dim, step), err, [2]int{s, d}, [2]int{source, dest})
}

// TestDimsCreate has the examples of MPI-5.0 §8.5.2, and numbers whose divisors are many, few, or far from each other.
func TestDimsCreate(t *testing.T) {
	for _, x := range []struct {
		n          int
		dims, want []int
		class      mpi.Class
	}{
		{6, []int{0, 0}, []int{3, 2}, 0}, {7, []int{0, 0}, []int{7, 1}, 0},
		{6, []int{0, 3, 0}, []int{2, 3, 1}, 0}, {7, []int{0, 3, 0}, nil, mpi.ErrDims},
		{1, nil, nil, 0}, {2, nil, nil, mpi.ErrDims}, {1, []int{0, 0, 0}, []int{1, 1, 1}, 0},
		{16, []int{0, 0, 0}, []int{4, 2, 2}, 0}, {12, []int{0, 2, 0, 0}, []int{3, 2, 2, 1}, 0}, {6, []int{3, 2}, []int{3, 2}, 0},
		{12, []int{3, 2}, nil, mpi.ErrDims}, {6, []int{-1, 0}, nil, mpi.ErrDims}, {0, []int{0}, nil, mpi.ErrArg},
		{-4, []int{0, 0}, nil, mpi.ErrArg}, {math.MaxInt32, []int{0, 0}, []int{math.MaxInt32, 1}, 0},
		{math.MaxInt32 + 1, []int{0}, nil, mpi.ErrArg}, {36, []int{0, 0, 0}, []int{4, 3, 3}, 0},
		{4, []int{math.MaxInt, 2, 0}, nil, mpi.ErrDims},
		{735134400, []int{0, 0, 0, 0, 0, 0, 0, 0}, []int{17, 14, 13, 13, 12, 11, 10, 9}, -1},
	} {
		given := slices.Clone(x.dims)
		got, err := mpi.DimsCreate(x.n, x.dims...)
		switch {
		case x.class > 0:
			if err := ofClass(err, x.class); err != nil {
				t.Errorf("DimsCreate(%d, %v): %v", x.n, x.dims, err)
			}
		case x.class < 0: // any division
			product := 1
			for _, d := range got {
				product *= d
			}
			if err != nil || product != x.n || !slices.IsSortedFunc(got, func(a, b int) int { return b - a }) {
				t.Errorf("DimsCreate(%d, %v) = %v, %v", x.n, x.dims, got, err)
			}
		case err != nil || !slices.Equal(got, x.want):
			t.Errorf("DimsCreate(%d, %v) = %v, %v, want %v", x.n, x.dims, got, err, x.want)
		}
		if !slices.Equal(given, x.dims) {
			t.Errorf("DimsCreate(%d, %v) changed its argument to %v", x.n, given, x.dims)
		}
	}
}

// TestCart: a grid of 3 by 2, of which the second dimension is periodic, on more ranks than it has.
func TestCart(t *testing.T) {
	for _, n := range []int{6, 8} {
		mpitest.Run(t, n, func(p *mpi.Process) error {
			w := p.World()
			dims, periodic := []int{3, 2}, []bool{false, true}
			c, err := w.CartCreate(dims, periodic, mpi.KeepRanks)
			if err != nil || w.Rank() >= 6 {
				return errors.Join(err, check(c == nil, "rank %d is in the grid", w.Rank()))
			}
			dims[0], periodic[0] = 7, true // the grid has its own
			x, y := c.Rank()/2, c.Rank()%2
			errs := []error{checkProcesses(c, p, all(6)...)}
			d, err := c.Dup()
			if err != nil {
				return err
			}
			for _, c := range []*mpi.Comm{c, d} {
				kind, err := c.TopoTest()
				errs = append(errs, same("kind", err, kind, mpi.Cart))
				g, err := c.CartGet()
				errs = append(errs, same("grid", err, g, mpi.Grid{Dims: []int{3, 2}, Periodic: []bool{false, true}, Coords: []int{x, y}}))
				k, err := c.CartdimGet()
				errs = append(errs, same("dimensions", err, k, 2))
				up, down := mpi.ProcNull, mpi.ProcNull
				if x > 0 {
					up = c.Rank() - 2
				}
				if x < 2 {
					down = c.Rank() + 2
				}
				beside := c.Rank() ^ 1
				errs = append(errs, checkShift(c, 0, 1, up, down), checkShift(c, 0, -1, down, up), checkShift(c, 1, 1, beside, beside),
					checkShift(c, 1, 2, c.Rank(), c.Rank()), checkShift(c, 1, math.MinInt, c.Rank(), c.Rank()),
					checkShift(c, 1, math.MaxInt, beside, beside), checkShift(c, 0, 0, c.Rank(), c.Rank()),
					checkShift(c, 0, math.MaxInt, mpi.ProcNull, mpi.ProcNull), checkShift(c, 0, math.MinInt, mpi.ProcNull, mpi.ProcNull))
				around := []int{up, down, beside, beside}
				ns, err := c.Neighbors()
				errs = append(errs, same("neighbors", err, ns, mpi.Neighbors{Sources: around, Destinations: around}))
				for r := range 6 {
					coords, err := c.CartCoords(r)
					errs = append(errs, same("coordinates", err, coords, []int{r / 2, r % 2}))
					back, err := c.CartRank([]int{r / 2, r%2 - 4})
					errs = append(errs, same("rank", err, back, r))
				}
			}
			s, err := c.Split(0, 0)
			if err != nil {
				return err
			}
			kind, err := s.TopoTest()
			errs = append(errs, same("kind of a part", err, kind, mpi.Topology(mpi.Undefined)))
			_, err = s.CartGet()
			errs = append(errs, ofClass(err, mpi.ErrTopology), s.Free(), d.Free(), c.Free())
			_, err = c.CartGet()
			return errors.Join(append(errs, ofClass(err, mpi.ErrComm))...)
		})
	}
}

// TestCartSub: parts of a grid of 2 by 2 by 3, by every choice of dimensions. They have the coordinates that are kept.
func TestCartSub(t *testing.T) {
	mpitest.Run(t, 12, func(p *mpi.Process) error {
		c, err := p.World().CartCreate([]int{2, 2, 3}, []bool{true, false, true}, mpi.KeepRanks)
		if err != nil {
			return err
		}
		whole, err := c.CartGet()
		errs := []error{err}
		for choice := range 8 {
			keep := []bool{choice&1 != 0, choice&2 != 0, choice&4 != 0}
			want := mpi.Grid{Dims: []int{}, Periodic: []bool{}, Coords: []int{}}
			size := 1
			for i, k := range keep {
				if k {
					size *= whole.Dims[i]
					want.Dims = append(want.Dims, whole.Dims[i])
					want.Periodic = append(want.Periodic, whole.Periodic[i])
					want.Coords = append(want.Coords, whole.Coords[i])
				}
			}
			s, err := c.CartSub(keep)
			if err != nil {
				return err
			}
			got, err := s.CartGet()
			if size == 1 { // without dimensions
				got, want = mpi.Grid{}, mpi.Grid{}
				k, err := s.CartdimGet()
				errs = append(errs, same("dimensions", err, k, 0))
			}
			errs = append(errs, same(fmt.Sprint("part ", keep), err, got, want), same("size", nil, s.Size(), size), checkSum(s), s.Free())
		}
		return errors.Join(append(errs, c.Free())...)
	})
}

// TestCartZero: a grid without dimensions has one rank, and any coordinates lead to it.
func TestCartZero(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		for _, order := range []mpi.RankOrder{mpi.KeepRanks, mpi.Reorder} {
			c, err := p.World().CartCreate([][]int{nil, {}}[p.World().Rank()], nil, order)
			if err := errors.Join(err, check((c == nil) == (p.World().Rank() == 1), "the wrong rank is in the grid")); err != nil {
				return err
			}
			if c == nil {
				continue
			}
			r, err := c.CartRank([]int{5})
			g, err2 := c.CartGet()
			n, err3 := c.Neighbors()
			_, _, shift := c.CartShift(0, 1)
			s, err4 := c.CartSub([]bool{true})
			if err := errors.Join(err, err2, err3, err4, ofClass(shift, mpi.ErrDims)); err != nil {
				return err
			}
			k, err := s.CartdimGet()
			if err := errors.Join(same("rank", nil, r, 0), check(len(g.Coords)+len(n.Sources) == 0, "%v %v", g, n),
				same("dimensions", err, k, 0), s.Free(), c.Free()); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestCartWrong: wrong arguments, at one rank or at all, are errors of all ranks, and none blocks.
func TestCartWrong(t *testing.T) {
	for name, x := range byName(map[string]struct {
		dims         []int
		periodic     []bool
		there, other mpi.Class
	}{
		"negative":    {[]int{-1}, nil, mpi.ErrDims, mpi.ErrOther},
		"zero":        {[]int{3, 0}, nil, mpi.ErrDims, mpi.ErrOther},
		"large":       {[]int{2, 2}, nil, mpi.ErrDims, mpi.ErrOther},
		"overflowing": {[]int{1 << 32, 1 << 32}, nil, mpi.ErrDims, mpi.ErrOther},
		"huge":        {[]int{math.MaxInt, 1}, nil, mpi.ErrDims, mpi.ErrOther},
		"periodic":    {[]int{3}, []bool{true, true}, mpi.ErrArg, mpi.ErrOther},
		"different":   {[]int{3}, []bool{true}, mpi.ErrArg, mpi.ErrArg},
		"smaller":     {[]int{2}, nil, mpi.ErrArg, mpi.ErrArg},
	}) {
		t.Run(name, func(t *testing.T) {
			mpitest.Run(t, 3, func(p *mpi.Process) error {
				w := p.World()
				var errs []error
				for _, order := range []mpi.RankOrder{mpi.KeepRanks, mpi.Reorder} {
					dims, periodic, class := []int{3}, []bool(nil), x.other
					if w.Rank() == 1 {
						dims, periodic, class = x.dims, x.periodic, x.there
					}
					_, err := w.CartCreate(dims, periodic, order)
					errs = append(errs, ofClass(err, class))
				}
				if x.there != x.other {
					_, err := w.CartMap(x.dims, x.periodic)
					errs = append(errs, ofClass(err, x.there))
				}
				return errors.Join(append(errs, checkSum(w))...)
			})
		})
	}
}

// TestCartWrongCalls: calls with wrong arguments, or on a communicator without a grid.
func TestCartWrongCalls(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		w := p.World()
		c, err := w.CartCreate([]int{2, 1}, nil, mpi.KeepRanks)
		if err != nil {
			return err
		}
		_, e1 := c.CartRank([]int{0, 1})
		_, e2 := c.CartRank([]int{-1, 0})
		_, e3 := c.CartRank([]int{0})
		_, e4 := c.CartCoords(2)
		_, e5 := c.CartCoords(-1)
		_, _, e6 := c.CartShift(2, 1)
		_, _, e7 := c.CartShift(-1, 1)
		_, e8 := c.CartSub([]bool{true})
		_, e9 := c.CartSub([]bool{c.Rank() == 0, true})
		_, e10 := c.GraphNeighbors(0)
		_, e11 := c.DistGraphNeighbors()
		_, _, _, e12 := c.DistGraphNeighborsCount()
		_, f1 := w.CartRank([]int{0})
		_, f2 := w.CartCoords(0)
		_, _, f3 := w.CartShift(0, 1)
		_, f4 := w.CartSub(nil)
		_, f5 := w.CartdimGet()
		_, f6 := w.Neighbors()
		var none *mpi.Comm
		_, g1 := none.CartCreate(nil, nil, mpi.KeepRanks)
		_, g2 := none.TopoTest()
		return errors.Join(
			ofClass(e1, mpi.ErrArg), ofClass(e2, mpi.ErrArg), ofClass(e3, mpi.ErrArg), ofClass(e4, mpi.ErrRank), ofClass(e5, mpi.ErrRank),
			ofClass(e6, mpi.ErrDims), ofClass(e7, mpi.ErrDims), ofClass(e8, mpi.ErrArg), ofClass(e9, mpi.ErrArg),
			ofClass(e10, mpi.ErrTopology), ofClass(e11, mpi.ErrTopology), ofClass(e12, mpi.ErrTopology),
			ofClass(f1, mpi.ErrTopology), ofClass(f2, mpi.ErrTopology), ofClass(f3, mpi.ErrTopology), ofClass(f4, mpi.ErrTopology),
			ofClass(f5, mpi.ErrTopology), ofClass(f6, mpi.ErrTopology), ofClass(g1, mpi.ErrComm), ofClass(g2, mpi.ErrComm), c.Free())
	})
}

// twoByTwo are bindings of 8 ranks to two nodes with two sockets, so that consecutive ranks are on different nodes and sockets.
var twoByTwo = []string{"n0 0", "n1 0", "n0 1", "n1 1", "n0 2", "n1 2", "n0 3", "n1 3"}

// crossing returns how many messages to the neighbors of all ranks leave the node, and the socket.
func crossing(c *mpi.Comm) (nodes, sockets int, err error) {
	n, err := c.Neighbors()
	if err != nil {
		return 0, 0, err
	}
	was := make([]int, c.Size()) // ranks in World
	world := []int{0}
	if world[0], err = worldRank(c); err != nil {
		return 0, 0, err
	}
	err = mpi.Allgather(c, was, world)
	sum := []int{0, 0}
	for _, to := range n.Destinations {
		a, b := world[0], was[max(to, 0)]
		switch {
		case to == mpi.ProcNull:
		case a%2 != b%2:
			sum[0]++
			sum[1]++
		case a/2%2 != b/2%2:
			sum[1]++
		}
	}
	err = errors.Join(err, mpi.Allreduce(c, sum, sum, mpi.Sum))
	return sum[0], sum[1], err
}

// worldRank returns the rank in World of this process, which sends it to itself as an attribute of its name.
func worldRank(c *mpi.Comm) (r int, err error) {
	name, err := c.Name()
	if err == nil {
		_, err = fmt.Sscan(name, &r)
	}
	return r, err
}

// TestReorder: with Reorder every kind of topology has fewer messages between nodes, and between sockets, on two nodes with two
// sockets each. Each process knows the edges of its new rank.
func TestReorder(t *testing.T) {
	ring := make([][]int, 8)
	for r := range ring {
		ring[r] = []int{(r + 7) % 8, (r + 1) % 8}
	}
	for name, create := range byName(map[string]func(c *mpi.Comm, o mpi.RankOrder) (*mpi.Comm, error){
		"grid":  func(c *mpi.Comm, o mpi.RankOrder) (*mpi.Comm, error) { return c.CartCreate([]int{4, 2}, nil, o) },
		"torus": func(c *mpi.Comm, o mpi.RankOrder) (*mpi.Comm, error) { return c.CartCreate([]int{8}, []bool{true}, o) },
		"graph": func(c *mpi.Comm, o mpi.RankOrder) (*mpi.Comm, error) { return c.GraphCreate(ring, o) },
		"distributed graph": func(c *mpi.Comm, o mpi.RankOrder) (*mpi.Comm, error) {
			return c.DistGraphCreateAdjacent(ringNeighbors(c), nil, o)
		},
		"edges": func(c *mpi.Comm, o mpi.RankOrder) (*mpi.Comm, error) {
			r := c.Rank()
			return c.DistGraphCreate([]mpi.Edge{{r, (r + 1) % 8, 0}, {r, (r + 7) % 8, 0}}, false, nil, o)
		},
	}) {
		t.Run(name, func(t *testing.T) {
			bound(t, twoSockets(t), twoByTwo, func(p *mpi.Process) error {
				var nodes, sockets [2]int
				for i, order := range []mpi.RankOrder{mpi.KeepRanks, mpi.Reorder} {
					c, err := create(p.World(), order)
					if err != nil {
						return err
					}
					err = c.SetName(fmt.Sprint(p.World().Rank()))
					if err == nil {
						nodes[i], sockets[i], err = crossing(c)
					}
					if kind, _ := c.TopoTest(); kind == mpi.DistGraph && name != "edges" {
						err = errors.Join(err, checkNeighbors(c, ringNeighbors(c)))
					}
					if err := errors.Join(err, checkSum(c), c.Free()); err != nil {
						return err
					}
				}
				best := [2]int{4, 8}
				return same("nodes and sockets", check(nodes[1] < nodes[0] && sockets[1] < sockets[0], "%v %v", nodes, sockets),
					[2]int{nodes[1], sockets[1]}, map[bool][2]int{false: best, true: {4, 12}}[name == "grid"])
			})
		})
	}
}

// TestReorderWeights: the heaviest edges of a distributed graph stay on a node.
func TestReorderWeights(t *testing.T) {
	bound(t, twoSockets(t), []string{"n0 0", "n0 1", "n1 0", "n1 1"}, func(p *mpi.Process) error {
		w := p.World()
		var edges []mpi.Edge
		if w.Rank() == 3 { // 0 and 3 exchange most, as do 1 and 2
			edges = []mpi.Edge{{0, 3, 100}, {3, 0, 1}, {1, 2, math.MaxInt}, {0, 1, 10}, {2, 3, 10}}
		}
		c, err := w.DistGraphCreate(edges, true, nil, mpi.Reorder)
		if err != nil {
			return err
		}
		was := make([]int, 4)
		err = mpi.Allgather(c, was, []int{w.Rank()})
		n, err2 := c.DistGraphNeighbors()
		in, out, weighted, err3 := c.DistGraphNeighborsCount()
		return errors.Join(err, err2, err3, check(was[0]/2 == was[3]/2 && was[1]/2 == was[2]/2, "processes %v", was),
			check(weighted && in == len(n.Sources) && out == len(n.Destinations), "%d, %d and %v", in, out, weighted),
			check(c.Rank() != 1 || slices.Contains(n.DestinationWeights, math.MaxInt), "edges %v", n), c.Free())
	})
}

// TestReorderDiffers: ranks that do not agree on Reorder get an error.
func TestReorderDiffers(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		w := p.World()
		order := mpi.RankOrder(w.Rank() == 1)
		_, e1 := w.CartCreate([]int{2}, nil, order)
		_, e2 := w.GraphCreate([][]int{{}, {}}, order)
		_, e3 := w.DistGraphCreate(nil, false, nil, order)
		_, e4 := w.DistGraphCreateAdjacent(mpi.Neighbors{}, nil, order)
		return errors.Join(ofClass(e1, mpi.ErrArg), ofClass(e2, mpi.ErrArg), ofClass(e3, mpi.ErrArg), ofClass(e4, mpi.ErrArg),
			checkSum(w))
	})
}

// TestCartMap: without communication, the ranks that the processes should have are a permutation that keeps neighbors on a node.
func TestCartMap(t *testing.T) {
	bound(t, twoSockets(t), twoByTwo, func(p *mpi.Process) error {
		w := p.World()
		ring := make([][]int, 6)
		for r := range ring {
			ring[r] = []int{(r + 1) % 6}
		}
		errs := []error{}
		for i, mine := range []func() (int, error){
			func() (int, error) { return w.CartMap([]int{6}, []bool{true}) },
			func() (int, error) { return w.GraphMap(ring) },
		} {
			r, err := mine()
			if err != nil {
				return err
			}
			ranks := make([]int, 8)
			errs = append(errs, mpi.Allgather(w, ranks, []int{r}))
			process, cut := slices.Repeat([]int{-1}, 6), 0
			for old, r := range ranks {
				if r != mpi.Undefined {
					process[r] = old
				}
			}
			for r := range process {
				if process[r]%2 != process[(r+1)%6]%2 {
					cut++
				}
			}
			whole := !slices.Contains(process, -1)
			errs = append(errs, check(cut == 2 && whole, "map %d: processes %v, %d edges between nodes", i, process, cut))
		}
		return errors.Join(errs...)
	})
}
