package datatype

import (
	"fmt"
	"iter"
	"strconv"
	"sync"
)

// named are the predefined types of C and the ones of a fixed width, in the order of MPI-5.0 §3.2.2, and the types of Fortran
// that are the same. MPI_LONG_DOUBLE, MPI_C_LONG_DOUBLE_COMPLEX and MPI_LOGICAL have no Kind. Sizes are those of 64-bit Linux
// and macOS. They are made when one is first asked for: most programs use the types of Go.
var named = sync.OnceValue(func() []*Type { return newNamed(namedKinds[:]) })

var namedKinds = [...]namedKind{
	{"MPI_CHAR", Char}, {"MPI_SHORT", Int16}, {"MPI_INT", Int32}, {"MPI_LONG", Long},
	{"MPI_LONG_LONG_INT", Int64}, {"MPI_LONG_LONG", Int64}, {"MPI_SIGNED_CHAR", Int8}, {"MPI_UNSIGNED_CHAR", Uint8},
	{"MPI_UNSIGNED_SHORT", Uint16}, {"MPI_UNSIGNED", Uint32}, {"MPI_UNSIGNED_LONG", ULong},
	{"MPI_UNSIGNED_LONG_LONG", Uint64}, {"MPI_FLOAT", Float32}, {"MPI_DOUBLE", Float64}, {"MPI_WCHAR", WChar},
	{"MPI_C_BOOL", Bool}, {"MPI_INT8_T", Int8}, {"MPI_INT16_T", Int16}, {"MPI_INT32_T", Int32}, {"MPI_INT64_T", Int64},
	{"MPI_UINT8_T", Uint8}, {"MPI_UINT16_T", Uint16}, {"MPI_UINT32_T", Uint32}, {"MPI_UINT64_T", Uint64},
	{"MPI_C_COMPLEX", Complex64}, {"MPI_C_FLOAT_COMPLEX", Complex64}, {"MPI_C_DOUBLE_COMPLEX", Complex128},
	{"MPI_BYTE", Byte}, {"MPI_PACKED", Packed},
	{"MPI_AINT", Int64}, {"MPI_OFFSET", Int64}, {"MPI_COUNT", Int64},
	{"MPI_CXX_BOOL", Bool}, {"MPI_CXX_FLOAT_COMPLEX", Complex64}, {"MPI_CXX_DOUBLE_COMPLEX", Complex128},
	{"MPI_CHARACTER", Char}, {"MPI_INTEGER", Int32}, {"MPI_REAL", Float32}, {"MPI_DOUBLE_PRECISION", Float64},
	{"MPI_COMPLEX", Complex64}, {"MPI_DOUBLE_COMPLEX", Complex128},
	{"MPI_INTEGER1", Int8}, {"MPI_INTEGER2", Int16}, {"MPI_INTEGER4", Int32}, {"MPI_INTEGER8", Int64},
	{"MPI_REAL4", Float32}, {"MPI_REAL8", Float64}, {"MPI_COMPLEX8", Complex64}, {"MPI_COMPLEX16", Complex128},
}

// basic are the types of one element of each kind; index 0 is nil.
var basic = newBasic()

type namedKind struct {
	name string
	kind Kind
}

func newNamed(list []namedKind) []*Type {
	ts := make([]*Type, len(list))
	for i, n := range list {
		ts[i] = newElement(n.name, n.kind)
	}
	return ts
}

func newBasic() [Kinds]*Type {
	var ts [Kinds]*Type
	for k := Kind(1); k < Kinds; k++ {
		ts[k] = newElement(k.String(), k)
	}
	return ts
}

func newElement(name string, k Kind) *Type {
	t := &Type{name: name, data: newLeaf(k), ub: int64(k.Size()), contents: Contents{Combiner: CombinerNamed}}
	t.Commit()
	return t
}

// OfKind returns the committed type of one element of a kind, or nil for an invalid kind.
func OfKind(k Kind) *Type {
	if k >= Kinds {
		return nil
	}
	return basic[k]
}

// Named returns a predefined type by its name in the standard, such as "MPI_INT", or nil if there is none. MPI-5.0 §3.2.2.
func Named(name string) *Type {
	for _, t := range named() {
		if t.name == name {
			return t
		}
	}
	return nil
}

// Class is a class of numbers, whose types differ in size.
type Class uint8

// The classes, with the values of the MPI-5.0 ABI.
const (
	ClassInteger Class = 192 + iota
	ClassReal
	ClassComplex
)

// MatchSize returns the predefined type of a class whose elements have size bytes. The error wraps ErrArgument if there is
// none. MPI-5.0 §19.1.9.
func MatchSize(class Class, size int) (*Type, error) {
	names := map[Class]string{ClassInteger: "MPI_INTEGER", ClassReal: "MPI_REAL", ClassComplex: "MPI_COMPLEX"}
	if t := Named(names[class] + strconv.Itoa(size)); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("match the size of class %d: %d bytes: %w", class, size, ErrArgument)
}

// Predefined returns all types that have names in the standard.
func Predefined() iter.Seq[*Type] {
	return func(yield func(*Type) bool) {
		for _, t := range named() {
			if !yield(t) {
				return
			}
		}
	}
}
