package mpi

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// Array is a slice seen as an array with dimensions. The last one is contiguous, as in Go. Its methods name parts of it as a
// [View]: with a grid that has ghost cells around it, the communication of a halo exchange along dimension d is
//
//	c.Sendrecv(g.Face(d, 1), low, 0, g.Face(d, n[d]+1), high, 0)
//	c.Sendrecv(g.Face(d, n[d]), high, 0, g.Face(d, 0), low, 0)
//
// An Array is a small value that refers to the memory of its slice. Views are made without allocation once the first of its kind
// has been made from the array, or from a copy of it; so call ArrayOf once. Any goroutine may use it. MPI-5.0 §5.1.3.
type Array[T any] struct {
	x     []T
	shape *arrayShape
}

// arrayShape has what all copies of an array share: the datatypes of its parts, each made when it is first needed.
type arrayShape struct {
	err   error // an *Error; the other fields are not set then
	elem  *datatype.Type
	dims  []int
	steps []int                           // elements from one index to the next
	faces []atomic.Pointer[datatype.Type] // for each dimension
	parts atomic.Pointer[partType]        // the parts of Sub that were used last, newest first
}

// partType is the datatype of parts of a size.
type partType struct {
	sizes []int
	t     *datatype.Type
	next  *partType
}

var (
	errNoArray       = errors.New("the zero Array has no elements")
	errTwoDimensions = errors.New("rows and columns are those of an array with two dimensions; see Array.Face")
)

// maxPartTypes is the number of sizes of parts whose datatypes an array keeps. A halo in three dimensions has 26.
const maxPartTypes = 32

// ArrayOf returns x as an array. dims are the numbers of elements in each dimension, and their product is the length of x. If it
// is not, the array has an error of class ErrCount, which all its views have. MPI-5.0 §5.1.3.
func ArrayOf[T any](x []T, dims ...int) Array[T] {
	const op = "ArrayOf"
	elem, err := core.ElementsFor[T]()
	if err != nil {
		return Array[T]{shape: &arrayShape{err: public(core.TypeError(op, err))}}
	}
	s := &arrayShape{elem: elem, dims: slices.Clone(dims), steps: make([]int, len(dims)),
		faces: make([]atomic.Pointer[datatype.Type], len(dims))}
	n, ok := 1, len(dims) > 0
	for d := len(dims) - 1; d >= 0; d-- {
		s.steps[d] = n
		ok = ok && dims[d] >= 0 && (dims[d] == 0 || n <= len(x)/dims[d])
		if ok {
			n *= dims[d]
		}
	}
	if !ok || n != len(x) {
		err := core.NewError(op, core.ErrCount, fmt.Errorf("a slice of %d elements as an array of %v", len(x), s.dims))
		return Array[T]{shape: &arrayShape{err: public(err)}}
	}
	return Array[T]{x, s}
}

// Err returns the error with which the array was made. MPI-5.0 §9.3.
func (a Array[T]) Err() error {
	if a.shape == nil {
		return nil
	}
	return a.shape.err
}

// Slice returns the elements. MPI-5.0 §5.1.3.
func (a Array[T]) Slice() []T { return a.x }

// Index returns the position in the slice of an element, given an index for each dimension. It panics if an index is out of
// range, as indexing does. MPI-5.0 §5.1.3.
func (a Array[T]) Index(index ...int) int {
	at := 0
	for d, i := range index {
		if uint(i) >= uint(a.shape.dims[d]) {
			panic(fmt.Sprintf("mpi: index %d of dimension %d is out of range: it has %d", i, d, a.shape.dims[d]))
		}
		at += i * a.shape.steps[d]
	}
	if len(index) != len(a.shape.dims) {
		panic(fmt.Sprintf("mpi: %d indices for an array with %d dimensions", len(index), len(a.shape.dims)))
	}
	return at
}

// At returns an element. It panics if an index is out of range. MPI-5.0 §5.1.3.
func (a Array[T]) At(index ...int) T { return a.x[a.Index(index...)] }

// Set sets an element. It panics if an index is out of range. MPI-5.0 §5.1.3.
func (a Array[T]) Set(v T, index ...int) { a.x[a.Index(index...)] = v }

// All returns the whole array. MPI-5.0 §5.1.3.
func (a Array[T]) All() View {
	if a.shape == nil || a.shape.err != nil {
		return View{err: a.Err()}
	}
	return newView("Array.All", core.Bytes(a.x), a.shape.elem, 0, len(a.x))
}

// Row returns row i of an array with two dimensions. The view has an error of class ErrArg if there is none. MPI-5.0 §5.1.3.
func (a Array[T]) Row(i int) View { return a.face("Array.Row", 0, i, true) }

// Col returns column j of an array with two dimensions. The view has an error of class ErrArg if there is none. MPI-5.0 §5.1.3.
func (a Array[T]) Col(j int) View { return a.face("Array.Col", 1, j, true) }

// Face returns the elements whose index in dimension dim is index: in three dimensions a plane, in two a row (dimension 0) or a
// column (dimension 1). The view has an error of class ErrArg if there are none. MPI-5.0 §5.1.3.
func (a Array[T]) Face(dim, index int) View { return a.face("Array.Face", dim, index, false) }

func (a Array[T]) face(op string, dim, index int, flat bool) View {
	s := a.shape
	if s == nil || s.err != nil || uint(dim) >= uint(len(s.dims)) || uint(index) >= uint(s.dims[dim]) || flat && len(s.dims) != 2 {
		return s.noFace(op, dim, index, flat)
	}
	t := s.faces[dim].Load()
	if t == nil {
		var err error
		if t, err = s.faceType(dim, len(a.x)); err != nil {
			return View{err: public(core.TypeError(op, err))}
		}
		s.faces[dim].Store(t)
	}
	return newView(op, core.Bytes(a.x), t, index*s.steps[dim]*sizeOf[T](), 1)
}

// faceType returns the datatype of the faces of a dimension: a block of the dimensions after it for each index of those before.
func (s *arrayShape) faceType(dim, total int) (*datatype.Type, error) {
	step, stride := s.steps[dim], s.steps[dim]*s.dims[dim]
	count := 1
	if stride > 0 {
		count = total / stride
	}
	t, err := datatype.Vector(int64(count), int64(step), int64(stride), s.elem)
	if err != nil {
		return nil, err
	}
	t.Commit()
	return t, nil
}

// noFace returns the view of a face that does not exist.
func (s *arrayShape) noFace(op string, dim, index int, flat bool) View {
	var err error
	switch {
	case s != nil && s.err != nil:
		return View{err: s.err}
	case s == nil:
		err = errNoArray
	case flat && len(s.dims) != 2:
		err = errTwoDimensions
	case uint(dim) >= uint(len(s.dims)):
		err = fmt.Errorf("dimension %d of an array with %d", dim, len(s.dims))
	default:
		err = fmt.Errorf("index %d of dimension %d, which has %d", index, dim, s.dims[dim])
	}
	return View{err: public(core.NewError(op, core.ErrArg, err))}
}

// Sub returns a part of an array: sizes[d] elements in dimension d, from starts[d] on. The view has an error of class ErrArg if
// they lie outside the array. MPI-5.0 §5.1.3.
func (a Array[T]) Sub(starts, sizes []int) View {
	const op = "Array.Sub"
	s := a.shape
	if s == nil || s.err != nil {
		return s.noFace(op, 0, 0, false)
	}
	origin, empty := 0, false
	ok := len(starts) == len(s.dims) && len(sizes) == len(s.dims)
	for d := 0; ok && d < len(s.dims); d++ {
		ok = starts[d] >= 0 && sizes[d] >= 0 && starts[d] <= s.dims[d] && sizes[d] <= s.dims[d]-starts[d]
		origin += starts[d] * s.steps[d]
		empty = empty || sizes[d] == 0
	}
	if !ok {
		err := fmt.Errorf("%v elements from %v on, of an array of %v", slices.Clone(sizes), slices.Clone(starts), s.dims)
		return View{err: public(core.NewError(op, core.ErrArg, err))}
	}
	if empty {
		return View{}
	}
	t, err := s.partType(sizes)
	if err != nil {
		return View{err: public(core.TypeError(op, err))}
	}
	return newView(op, core.Bytes(a.x), t, origin*sizeOf[T](), 1)
}

// partType returns the datatype of parts of a size. Parts that two goroutines add at once may lose one, which is made again.
func (s *arrayShape) partType(sizes []int) (*datatype.Type, error) {
	n := 0
	for p := s.parts.Load(); p != nil; p = p.next {
		if slices.Equal(p.sizes, sizes) {
			return p.t, nil
		}
		n++
	}
	t := s.elem
	for d := len(sizes) - 1; d >= 0; d-- {
		_, extent := s.elem.Extent()
		var err error
		if t, err = datatype.HVector(int64(sizes[d]), 1, int64(s.steps[d])*extent, t); err != nil {
			return nil, err
		}
	}
	t.Commit()
	next := s.parts.Load()
	if n >= maxPartTypes {
		next = nil
	}
	s.parts.Store(&partType{slices.Clone(sizes), t, next})
	return t, nil
}
