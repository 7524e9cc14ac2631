package core

import (
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// The constructors return handles that are not committed. Their arguments are those of package
// datatype.

// derive returns the type that a constructor makes of t.
func (t *Datatype) derive(op string, construct func(of *datatype.Type) (*datatype.Type, error)) (*Datatype, error) {
	of, err := t.Type(op)
	if err != nil {
		return nil, err
	}
	made, err := construct(of)
	return newType(op, made, err)
}

// newType returns the result of a constructor.
func newType(op string, t *datatype.Type, err error) (*Datatype, error) {
	if err != nil {
		return nil, TypeError(op, err)
	}
	return &Datatype{typ: t}, nil
}

// convert returns a copy of numbers that are valid in both types.
func convert[To, From int | int64](x []From) []To {
	y := make([]To, len(x))
	for i, n := range x {
		y[i] = To(n)
	}
	return y
}

func int64s(x []int) []int64 { return convert[int64](x) }

// TypeContiguous returns count copies of old in a row.
func TypeContiguous(count int, old *Datatype) (*Datatype, error) {
	return old.derive("TypeContiguous", func(of *datatype.Type) (*datatype.Type, error) {
		return datatype.Contiguous(int64(count), of)
	})
}

// TypeVector returns count blocks of blockLen copies of old, stride extents apart.
func TypeVector(count, blockLen, stride int, old *Datatype) (*Datatype, error) {
	return old.derive("TypeVector", func(of *datatype.Type) (*datatype.Type, error) {
		return datatype.Vector(int64(count), int64(blockLen), int64(stride), of)
	})
}

// TypeHvector is TypeVector with a stride in bytes.
func TypeHvector(count, blockLen, stride int, old *Datatype) (*Datatype, error) {
	return old.derive("TypeHvector", func(of *datatype.Type) (*datatype.Type, error) {
		return datatype.HVector(int64(count), int64(blockLen), int64(stride), of)
	})
}

// TypeIndexed returns blocks of copies of old: blockLens[i] of them, displs[i] extents from the
// origin.
func TypeIndexed(blockLens, displs []int, old *Datatype) (*Datatype, error) {
	return old.derive("TypeIndexed", func(of *datatype.Type) (*datatype.Type, error) {
		return datatype.Indexed(int64s(blockLens), int64s(displs), of)
	})
}

// TypeHindexed is TypeIndexed with displacements in bytes.
func TypeHindexed(blockLens, displs []int, old *Datatype) (*Datatype, error) {
	return old.derive("TypeHindexed", func(of *datatype.Type) (*datatype.Type, error) {
		return datatype.HIndexed(int64s(blockLens), int64s(displs), of)
	})
}

// TypeIndexedBlock is TypeIndexed with blocks of one length.
func TypeIndexedBlock(blockLen int, displs []int, old *Datatype) (*Datatype, error) {
	return old.derive("TypeIndexedBlock", func(of *datatype.Type) (*datatype.Type, error) {
		return datatype.IndexedBlock(int64(blockLen), int64s(displs), of)
	})
}

// TypeHindexedBlock is TypeIndexedBlock with displacements in bytes.
func TypeHindexedBlock(blockLen int, displs []int, old *Datatype) (*Datatype, error) {
	return old.derive("TypeHindexedBlock", func(of *datatype.Type) (*datatype.Type, error) {
		return datatype.HIndexedBlock(int64(blockLen), int64s(displs), of)
	})
}

// TypeStruct returns blocks of copies of several types: blockLens[i] of types[i], displs[i] bytes
// from the origin.
func TypeStruct(blockLens, displs []int, types []*Datatype) (*Datatype, error) {
	const op = "TypeStruct"
	of := make([]*datatype.Type, len(types))
	for i, old := range types {
		var err error
		if of[i], err = old.Type(op); err != nil {
			return nil, newError(op, ErrType, fmt.Errorf("block %d: %w", i, err.(*Error).Err))
		}
	}
	t, err := datatype.Struct(int64s(blockLens), int64s(displs), of)
	return newType(op, t, err)
}

// TypeSubarray returns subsizes[i] of sizes[i] elements in dimension i, from starts[i] on.
func TypeSubarray(sizes, subsizes, starts []int, order datatype.Order, old *Datatype) (*Datatype, error) {
	return old.derive("TypeSubarray", func(of *datatype.Type) (*datatype.Type, error) {
		return datatype.Subarray(int64s(sizes), int64s(subsizes), int64s(starts), order, of)
	})
}

// TypeDarray returns the part of a distributed array that a rank has.
func TypeDarray(size, rank int, gsizes []int, distribs []datatype.Distribution, dargs, psizes []int, order datatype.Order,
	old *Datatype) (*Datatype, error) {
	return old.derive("TypeDarray", func(of *datatype.Type) (*datatype.Type, error) {
		return datatype.Darray(int64(size), int64(rank), int64s(gsizes), distribs, int64s(dargs), int64s(psizes), order, of)
	})
}

// Resized returns the type with another lower bound and extent, in bytes.
func (t *Datatype) Resized(lb, extent int) (*Datatype, error) {
	return t.derive("Datatype.Resized", func(of *datatype.Type) (*datatype.Type, error) {
		return datatype.Resized(int64(lb), int64(extent), of)
	})
}

// TypeContents are the arguments from which a type was made, as [datatype.Contents].
type TypeContents struct {
	Ints, Addrs []int
	Types       []*Datatype
}

// Envelope returns the constructor of the type, and the numbers of integers, addresses and types in
// its contents.
func (t *Datatype) Envelope() (combiner datatype.Combiner, ints, addrs, types int, err error) {
	typ, err := t.Type("Datatype.Envelope")
	if err != nil {
		return 0, 0, 0, 0, err
	}
	combiner, ints, addrs, types = typ.Envelope()
	return combiner, ints, addrs, types, nil
}

// Contents returns the arguments of the constructor. The types in it are new handles, unless they
// are shared.
func (t *Datatype) Contents() (TypeContents, error) {
	const op = "Datatype.Contents"
	typ, err := t.Type(op)
	if err != nil {
		return TypeContents{}, err
	}
	c, err := typ.Contents()
	if err != nil {
		return TypeContents{}, TypeError(op, err)
	}
	out := TypeContents{Ints: convert[int](c.Ints), Addrs: convert[int](c.Addrs), Types: make([]*Datatype, len(c.Types))}
	for i, old := range c.Types {
		// A shared type has one handle, by which programs compare it.
		h, ok := shared.known(old)
		if !ok {
			h = &Datatype{typ: old}
		}
		out.Types[i] = h
	}
	return out, nil
}
