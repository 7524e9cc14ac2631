package datatype

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// named are the predefined types by their names in the standard. They are made when one is first
// asked for: most programs use the types of Go.
var named = sync.OnceValue(newNamed)

// basic are the types of one element of each kind; index 0 is nil.
var basic = newBasic()

func newNamed() map[string]*Type {
	ts := map[string]*Type{}
	for k := Kind(1); k < Kinds; k++ {
		for _, name := range strings.Fields(kindTable[k].mpi) {
			ts[name] = newElement(name, k)
		}
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
func Named(name string) *Type { return named()[name] }

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
