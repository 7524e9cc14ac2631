package mpi

import (
	"reflect"

	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// Datatype describes data in memory: basic elements, and where they are. [TypeOf] returns the datatypes of Go types. The
// constructors, such as [TypeVector], make others of them, which must be committed before data moves. A [View] applies a
// datatype to a slice. Parts of arrays need none of this: see [ArrayOf].
//
// A datatype does not change, and any goroutine and process may use it. Calls with a nil or freed one fail with ErrType.
// MPI-5.0 §5.1.
type Datatype core.Datatype

func (t *Datatype) core() *core.Datatype { return (*core.Datatype)(t) }

// datatypeOf returns the results of a call of core.
func datatypeOf(t *core.Datatype, err error) (*Datatype, error) { return (*Datatype)(t), public(err) }

// TypeOf returns the committed datatype of a Go type: a number or bool, or an array or struct of these without pointers. The
// padding of a struct and its fields named _ are not sent. It fails with ErrType for other types, and names the field.
//
// The datatype of a Go type is shared by the whole program, like the predefined types: it always has the same pointer, and it
// cannot be named, have attributes or be freed. Dup returns one that can. MPI-5.0 §3.2.2, §5.1.
func TypeOf[T any]() (*Datatype, error) {
	return datatypeOf(core.TypeOf("TypeOf", reflect.TypeFor[T]()))
}

// TypeNamed returns a predefined datatype by its name in the standard, such as "MPI_LONG", "MPI_BYTE" or "MPI_PACKED". It fails
// with ErrArg if there is none, as for MPI_LONG_DOUBLE, which Go does not have. MPI-5.0 §3.2.2.
func TypeNamed(name string) (*Datatype, error) { return datatypeOf(core.TypeNamed(name)) }

// TypeClass is a class of numbers for TypeMatchSize, with the values of the MPI-5.0 ABI. MPI-5.0 §19.1.9.
type TypeClass int

// The classes of numbers. MPI-5.0 §19.1.9.
const (
	TypeClassInteger = TypeClass(datatype.ClassInteger)
	TypeClassReal    = TypeClass(datatype.ClassReal)
	TypeClassComplex = TypeClass(datatype.ClassComplex)
)

// TypeMatchSize returns the predefined datatype of a class of numbers that has a size in bytes. It fails with ErrArg if there is
// none. MPI-5.0 §19.1.9.
func TypeMatchSize(class TypeClass, size int) (*Datatype, error) {
	if class < TypeClassInteger || class > TypeClassComplex {
		class = 0 // no class of package datatype
	}
	return datatypeOf(core.TypeMatchSize(datatype.Class(class), size))
}

// Commit makes the datatype ready to move data: it is compiled. Further calls have no effect. MPI-5.0 §5.1.9.
func (t *Datatype) Commit() error { return public(t.core().Commit()) }

// Committed reports whether Commit was called, or the datatype is predefined or that of a Go type. MPI-5.0 §5.1.9.
func (t *Datatype) Committed() bool { return t.core().Committed() }

// Free deletes the attributes and ends the use of the datatype: later calls with it fail with ErrType. Views and datatypes that
// were made with it stay valid. If a delete callback fails, Free fails and the datatype stays. MPI-5.0 §5.1.9.
func (t *Datatype) Free() error { return public(t.core().Free()) }

// Dup returns another datatype with the same data, committed if t is. Its attributes are those that the copy callbacks return.
// Its name is empty. MPI-5.0 §5.1.10.
func (t *Datatype) Dup() (*Datatype, error) { return datatypeOf(t.core().Dup()) }

// Size returns the bytes of the data of one element, without gaps. MPI-5.0 §5.1.5.
func (t *Datatype) Size() (int, error) { return public2(t.core().Size()) }

// Extent returns the lower bound and the extent in bytes. The extent is the distance from one element to the next.
// MPI-5.0 §5.1.7.
func (t *Datatype) Extent() (lb, extent int, err error) { return public3(t.core().Extent()) }

// TrueExtent returns the lowest displacement of data, and the distance from there to the end of the highest, both in bytes. It
// ignores the bounds that Resized sets. MPI-5.0 §5.1.8.
func (t *Datatype) TrueExtent() (lb, extent int, err error) { return public3(t.core().TrueExtent()) }

// SetName names the datatype. Longer names are cut to MaxObjectName bytes. MPI-5.0 §7.8.
func (t *Datatype) SetName(name string) error { return public(t.core().SetName(name)) }

// Name returns the name. It is that of the standard for predefined datatypes, that of the Go type for those of TypeOf, and empty
// for others that have not been named. MPI-5.0 §7.8.
func (t *Datatype) Name() (string, error) { return public2(t.core().Name()) }

// String returns the name, or how the datatype was made of which others: "vector(3 1 128) of float64". MPI-5.0 §7.8.
func (t *Datatype) String() string { return t.core().String() }

// Combiner says which constructor has made a datatype, with the values of the MPI-5.0 ABI. MPI-5.0 §5.1.13.
type Combiner int

// The combiners. The comments name the contents: Ints; Addrs. Lengths of lists come before them. Types has the old datatype,
// or that of each block. MPI-5.0 §5.1.13.
const (
	CombinerNamed         = Combiner(datatype.CombinerNamed)         // none: predefined
	CombinerDup           = Combiner(datatype.CombinerDup)           // none
	CombinerContiguous    = Combiner(datatype.CombinerContiguous)    // count
	CombinerVector        = Combiner(datatype.CombinerVector)        // count, block length, stride
	CombinerHvector       = Combiner(datatype.CombinerHVector)       // count, block length; stride
	CombinerIndexed       = Combiner(datatype.CombinerIndexed)       // count, block lengths, displacements
	CombinerHindexed      = Combiner(datatype.CombinerHIndexed)      // count, block lengths; displacements
	CombinerIndexedBlock  = Combiner(datatype.CombinerIndexedBlock)  // count, block length, displacements
	CombinerHindexedBlock = Combiner(datatype.CombinerHIndexedBlock) // count, block length; displacements
	CombinerStruct        = Combiner(datatype.CombinerStruct)        // count, block lengths; displacements
	CombinerSubarray      = Combiner(datatype.CombinerSubarray)      // dims, sizes, subsizes, starts, order
	CombinerDarray        = Combiner(datatype.CombinerDarray)        // size, rank, dims, sizes, distribs, arguments, grid, order
	CombinerResized       = Combiner(datatype.CombinerResized)       // none; lower bound, extent
)

// String returns the name of the constructor, such as "indexed_block". MPI-5.0 §5.1.13.
func (c Combiner) String() string { return datatype.Combiner(c).String() }

// Envelope says how a datatype was made, and how long its contents are. MPI-5.0 §5.1.13.
type Envelope struct {
	Combiner           Combiner
	Ints, Addrs, Types int
}

// Contents are the arguments from which a datatype was made. MPI-5.0 §5.1.13.
type Contents struct {
	Combiner Combiner
	// Ints are counts, and displacements that count elements.
	Ints []int
	// Addrs are displacements and extents in bytes.
	Addrs []int
	// Types are the old datatypes: new values, which may be freed, unless they are predefined or of Go types.
	Types []*Datatype
}

// Envelope returns how the datatype was made. MPI-5.0 §5.1.13.
func (t *Datatype) Envelope() (Envelope, error) {
	combiner, ints, addrs, types, err := t.core().Envelope()
	return Envelope{Combiner(combiner), ints, addrs, types}, public(err)
}

// Contents returns the arguments from which the datatype was made, in slices that belong to the caller. It fails with ErrType if
// the datatype is predefined. MPI-5.0 §5.1.13.
func (t *Datatype) Contents() (Contents, error) {
	e, err := t.Envelope()
	if err != nil {
		return Contents{}, err
	}
	c, err := t.core().Contents()
	if err != nil {
		return Contents{}, public(err)
	}
	types := make([]*Datatype, len(c.Types))
	for i, old := range c.Types {
		types[i] = (*Datatype)(old)
	}
	return Contents{e.Combiner, c.Ints, c.Addrs, types}, nil
}
