package datatype

import "slices"

// Order says which dimension of an array is contiguous in memory.
type Order uint8

// The orders, with the values of the MPI-5.0 ABI. MPI-5.0 §5.1.3.
const (
	OrderC       Order = 12 // the last dimension
	OrderFortran Order = 15 // the first dimension
)

// Distribution says how a dimension of a global array is divided among processes.
type Distribution uint8

// The distributions, with the values of the MPI-5.0 ABI. MPI-5.0 §5.1.4.
const (
	// DistributeNone does not divide the dimension.
	DistributeNone Distribution = 16 + iota
	// DistributeBlock gives each process one block. The argument is the length of blocks.
	DistributeBlock
	// DistributeCyclic deals blocks out in turn. The argument is the length of blocks.
	DistributeCyclic
)

// DefaultArgument as the argument of a distribution stands for the least sufficient length of blocks (block), or 1 (cyclic). The
// ABI's value, 19, is also a length of blocks.
const DefaultArgument = -1

// Subarray returns a part of an array of elements of type t: subsizes[i] of sizes[i] elements in dimension i, from starts[i]
// on. Its extent is that of the whole array. MPI-5.0 §5.1.3.
func Subarray(sizes, subsizes, starts []int64, order Order, t *Type) (*Type, error) {
	def := Contents{Combiner: CombinerSubarray, Types: []*Type{t},
		Ints: slices.Concat([]int64{int64(len(sizes))}, sizes, subsizes, starts, []int64{int64(order)})}
	name := def.Combiner.String()
	if err := checkArray(name, len(sizes), order, t, len(subsizes), len(starts)); err != nil {
		return nil, err
	}
	a := array{data: t.data, extent: t.ub - t.lb}
	for _, d := range dimensions(len(sizes), order) {
		size, n, start := sizes[d], subsizes[d], starts[d]
		if size < 1 || n < 1 || start < 0 || n > size || start > size-n {
			return nil, argumentError(name, ErrArgument, "dimension %d: %d elements from %d on, of %d", d, n, start, size)
		}
		a.place(start, n, 0, n)
		a.grow(size)
	}
	return a.newType(def)
}

// Darray returns the part of a global array of elements of type t that a process has. The processes form a grid of psizes[i]
// in dimension i, in which ranks are in row-major order. Dimension i has gsizes[i] elements, which distribs[i] divides with
// the argument dargs[i]. The extent is that of the global array. MPI-5.0 §5.1.4.
func Darray(size, rank int64, gsizes []int64, distribs []Distribution, dargs, psizes []int64, order Order,
	t *Type) (*Type, error) {
	ints := slices.Concat([]int64{size, rank, int64(len(gsizes))}, gsizes)
	for _, d := range distribs {
		ints = append(ints, int64(d))
	}
	ints = slices.Concat(ints, dargs, psizes, []int64{int64(order)})
	def := Contents{Combiner: CombinerDarray, Ints: ints, Types: []*Type{t}}
	name := def.Combiner.String()
	if err := checkArray(name, len(gsizes), order, t, len(distribs), len(dargs), len(psizes)); err != nil {
		return nil, err
	}
	coords, err := gridCoords(size, rank, psizes)
	if err != nil {
		return nil, err
	}
	a := array{data: t.data, extent: t.ub - t.lb}
	for _, d := range dimensions(len(gsizes), order) {
		if gsizes[d] < 1 {
			return nil, argumentError(name, ErrArgument, "dimension %d: %d elements", d, gsizes[d])
		}
		if err := a.distribute(d, gsizes[d], distribs[d], dargs[d], psizes[d], coords[d]); err != nil {
			return nil, err
		}
		a.grow(gsizes[d])
	}
	return a.newType(def)
}

// checkArray checks the arguments that subarrays and distributed arrays have both. lens are the lengths of slices that have one
// value for each dimension.
func checkArray(name string, dims int, order Order, t *Type, lens ...int) error {
	switch {
	case t == nil:
		return argumentError(name, ErrNoType, "old type")
	case dims == 0:
		return argumentError(name, ErrArgument, "no dimensions")
	case order != OrderC && order != OrderFortran:
		return argumentError(name, ErrArgument, "order %d", order)
	}
	for _, n := range lens {
		if n != dims {
			return argumentError(name, ErrArgument, "%d dimensions in one argument and %d in another", dims, n)
		}
	}
	return nil
}

// dimensions returns the dimensions, the contiguous one first.
func dimensions(n int, order Order) []int {
	ds := make([]int, n)
	for i := range ds {
		ds[i] = i
		if order == OrderC {
			ds[i] = n - 1 - i
		}
	}
	return ds
}

// gridCoords returns the coordinates of a rank in a grid of processes.
func gridCoords(size, rank int64, psizes []int64) ([]int64, error) {
	name := CombinerDarray.String()
	var c checked
	grid := int64(1)
	for d, p := range psizes {
		if p < 1 {
			return nil, argumentError(name, ErrArgument, "dimension %d: %d processes", d, p)
		}
		grid = c.mul(grid, p)
	}
	if c.overflow || grid != size || rank < 0 || rank >= size {
		return nil, argumentError(name, ErrArgument, "rank %d of %d processes in a grid of %v", rank, size, psizes)
	}
	coords := make([]int64, len(psizes))
	for d := len(psizes) - 1; d >= 0; d-- {
		coords[d] = rank % psizes[d]
		rank /= psizes[d]
	}
	return coords, nil
}

// array is a part of an array while it is built, one dimension after the other, from the contiguous one on.
type array struct {
	checked
	data   *layout // the part in the dimensions so far
	extent int64   // bytes of the whole array in the dimensions so far
}

// place adds a dimension to the part: n elements from start on, of which the first runs of length blockLen begin stride
// apart. A stride of 0 says that there is one run.
func (a *array) place(start, blockLen, stride, n int64) {
	first := a.mul(start, a.extent)
	if stride == 0 {
		a.data = a.sequence([]part{{off: first, of: a.repeat(n, a.extent, a.data)}})
		return
	}
	step := a.mul(stride, a.extent)
	whole := n / blockLen
	end := a.add(first, a.mul(whole, step))
	a.data = a.sequence([]part{
		{off: first, of: a.repeat(whole, step, a.repeat(blockLen, a.extent, a.data))},
		{off: end, of: a.repeat(n%blockLen, a.extent, a.data)},
	})
}

// grow makes the extent that of the whole dimension of n elements.
func (a *array) grow(n int64) { a.extent = a.mul(n, a.extent) }

// newType returns the type of the part. Its lower bound is 0.
func (a *array) newType(def Contents) (*Type, error) {
	return a.newBounded(def.Combiner.String(), a.data, bounds{any: true, ub: a.extent}, def)
}

// distribute adds dimension d, of g elements, to the part of the process with coordinate coord among p.
func (a *array) distribute(d int, g int64, dist Distribution, arg, p, coord int64) error {
	name := CombinerDarray.String()
	if arg < 1 && arg != DefaultArgument {
		return argumentError(name, ErrArgument, "dimension %d: blocks of %d", d, arg)
	}
	switch dist {
	case DistributeNone:
		if p != 1 {
			return argumentError(name, ErrArgument, "dimension %d is not distributed, but has %d processes", d, p)
		}
		a.place(0, g, 0, g)
	case DistributeBlock:
		if arg == DefaultArgument {
			arg = (g-1)/p + 1
		}
		if (g-1)/arg >= p {
			return argumentError(name, ErrArgument, "dimension %d: %d blocks of %d for %d elements", d, p, arg, g)
		}
		if coord > (g-1)/arg {
			a.data = nil
			return nil
		}
		n := min(arg, g-coord*arg)
		a.place(coord*arg, n, 0, n)
	case DistributeCyclic:
		if arg == DefaultArgument {
			arg = 1
		}
		arg = min(arg, g)
		last := (g - 1) / arg // the last block, which may be shorter
		if coord > last {
			a.data = nil
			return nil
		}
		before := (last - coord) / p // own blocks before the own last one
		n := before * arg
		if last%p == coord {
			n += (g-1)%arg + 1
		} else {
			n += arg
		}
		if before == 0 {
			a.place(coord*arg, n, 0, n)
		} else {
			a.place(coord*arg, arg, a.mul(p, arg), n)
		}
	default:
		return argumentError(name, ErrArgument, "dimension %d: distribution %d", d, dist)
	}
	return nil
}
