package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// The constructors below copy their slices, and return datatypes that must be committed before data moves. Counts may be 0;
// displacements and strides may be negative. Extents and displacements have 63 bits.

// TypeContiguous returns count copies of old in a row. It fails with ErrCount for a negative count, and with ErrArg if the extent
// is too large, as all constructors do. MPI-5.0 §5.1.2.
func TypeContiguous(count int, old *Datatype) (*Datatype, error) {
	return datatypeOf(core.TypeContiguous(count, old.core()))
}

// TypeVector returns count blocks of blockLen copies of old, whose starts are stride extents of old apart. MPI-5.0 §5.1.2.
func TypeVector(count, blockLen, stride int, old *Datatype) (*Datatype, error) {
	return datatypeOf(core.TypeVector(count, blockLen, stride, old.core()))
}

// TypeHvector is TypeVector with a stride in bytes. MPI-5.0 §5.1.2.
func TypeHvector(count, blockLen, stride int, old *Datatype) (*Datatype, error) {
	return datatypeOf(core.TypeHvector(count, blockLen, stride, old.core()))
}

// TypeIndexed returns blocks of copies of old: block i has blockLens[i] of them and begins displs[i] extents of old from the
// origin. MPI-5.0 §5.1.2.
func TypeIndexed(blockLens, displs []int, old *Datatype) (*Datatype, error) {
	return datatypeOf(core.TypeIndexed(blockLens, displs, old.core()))
}

// TypeHindexed is TypeIndexed with displacements in bytes. MPI-5.0 §5.1.2.
func TypeHindexed(blockLens, displs []int, old *Datatype) (*Datatype, error) {
	return datatypeOf(core.TypeHindexed(blockLens, displs, old.core()))
}

// TypeIndexedBlock is TypeIndexed with blocks that all have blockLen copies. MPI-5.0 §5.1.2.
func TypeIndexedBlock(blockLen int, displs []int, old *Datatype) (*Datatype, error) {
	return datatypeOf(core.TypeIndexedBlock(blockLen, displs, old.core()))
}

// TypeHindexedBlock is TypeIndexedBlock with displacements in bytes. MPI-5.0 §5.1.2.
func TypeHindexedBlock(blockLen int, displs []int, old *Datatype) (*Datatype, error) {
	return datatypeOf(core.TypeHindexedBlock(blockLen, displs, old.core()))
}

// TypeStruct returns blocks of copies of several datatypes: block i has blockLens[i] copies of types[i] and begins displs[i]
// bytes from the origin. Go structs need no TypeStruct: see TypeOf. MPI-5.0 §5.1.2.
func TypeStruct(blockLens, displs []int, types []*Datatype) (*Datatype, error) {
	of := make([]*core.Datatype, len(types))
	for i, t := range types {
		of[i] = t.core()
	}
	return datatypeOf(core.TypeStruct(blockLens, displs, of))
}

// Order says which dimension of an array is contiguous in memory, with the values of the MPI-5.0 ABI. MPI-5.0 §5.1.3.
type Order int

// The orders. MPI-5.0 §5.1.3.
const (
	OrderC       = Order(datatype.OrderC)       // the last dimension, as in Go
	OrderFortran = Order(datatype.OrderFortran) // the first dimension
)

// core returns the order. It is invalid if o is neither OrderC nor OrderFortran.
func (o Order) core() datatype.Order {
	if o != OrderC && o != OrderFortran {
		return 0
	}
	return datatype.Order(o)
}

// TypeSubarray returns a part of an array: subsizes[i] of sizes[i] elements in dimension i, from starts[i] on. Its extent is that
// of the whole array. For a part of a slice see also [Array.Sub]. MPI-5.0 §5.1.3.
func TypeSubarray(sizes, subsizes, starts []int, order Order, old *Datatype) (*Datatype, error) {
	return datatypeOf(core.TypeSubarray(sizes, subsizes, starts, order.core(), old.core()))
}

// Distribution says how a dimension of an array is divided among processes, with the values of the MPI-5.0 ABI. MPI-5.0 §5.1.4.
type Distribution int

// The distributions. MPI-5.0 §5.1.4.
const (
	// DistributeNone does not divide the dimension.
	DistributeNone = Distribution(datatype.DistributeNone)
	// DistributeBlock gives each process one block. The argument is the length of blocks.
	DistributeBlock = Distribution(datatype.DistributeBlock)
	// DistributeCyclic deals out blocks in turn. The argument is the length of blocks.
	DistributeCyclic = Distribution(datatype.DistributeCyclic)
	// DistributeDefault as an argument stands for the least length of blocks with which each process has at most one
	// (DistributeBlock), or for 1 (DistributeCyclic). The ABI's value is also a length of blocks, so it is not used.
	DistributeDefault = datatype.DefaultArgument
)

// TypeDarray returns the part of a distributed array that a rank has. The size processes form a grid of psizes[i] in dimension
// i, with ranks in row-major order. Dimension i has gsizes[i] elements, which distribs[i] divides with the argument dargs[i].
// The extent is that of the whole array. MPI-5.0 §5.1.4.
func TypeDarray(size, rank int, gsizes []int, distribs []Distribution, dargs, psizes []int, order Order,
	old *Datatype) (*Datatype, error) {
	d := make([]datatype.Distribution, len(distribs))
	for i, x := range distribs {
		if x >= DistributeNone && x <= DistributeCyclic {
			d[i] = datatype.Distribution(x)
		}
	}
	return datatypeOf(core.TypeDarray(size, rank, gsizes, d, dargs, psizes, order.core(), old.core()))
}

// Resized returns the datatype with another lower bound and extent, both in bytes. It fails with ErrArg for a negative extent.
// MPI-5.0 §5.1.7.
func (t *Datatype) Resized(lb, extent int) (*Datatype, error) {
	return datatypeOf(t.core().Resized(lb, extent))
}
