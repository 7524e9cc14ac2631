package datatype

import (
	"fmt"
	"math/bits"
	"reflect"
	"sync"
)

// GoTypes are the datatypes of Go types that were used, each made once. The zero GoTypes is empty.
type GoTypes struct {
	types sync.Map // of reflect.Type to goType
}

type goType struct {
	t   *Type
	err error
}

// Of returns the committed datatype of values of a Go type: a basic type, or an array or struct of such. The padding of a
// struct, and its fields named _, are not elements, so they are not sent; its extent includes them. A type with pointers,
// strings, slices, maps, interfaces, channels or functions has no datatype: the error wraps ErrNoElement and names the field.
func (g *GoTypes) Of(rt reflect.Type) (*Type, error) {
	if v, ok := g.types.Load(rt); ok {
		known := v.(*goType)
		return known.t, known.err
	}
	made := &goType{}
	if made.t, made.err = ofGoType(rt, rt.String()); made.err == nil {
		if made.t.name == "" {
			made.t.name = rt.String()
		}
		made.t.Commit()
	}
	v, _ := g.types.LoadOrStore(rt, made)
	known := v.(*goType)
	return known.t, known.err
}

// ofGoType returns the type of a Go type. path names the value, such as "Particle.Position[]".
func ofGoType(rt reflect.Type, path string) (*Type, error) {
	switch rt.Kind() {
	case reflect.Struct:
		return ofStruct(rt, path)
	case reflect.Array:
		elem, err := ofGoType(rt.Elem(), path+"[]")
		if err != nil {
			return nil, err
		}
		return Contiguous(int64(rt.Len()), elem)
	}
	if k := KindOf(rt); k != 0 {
		return OfKind(k), nil
	}
	return nil, fmt.Errorf("%s is of Go type %v, which has no copy of its data in place: %w", path, rt, ErrNoElement)
}

func ofStruct(rt reflect.Type, path string) (*Type, error) {
	var blockLens, displs []int64
	var types []*Type
	for f := range rt.Fields() {
		t, err := ofGoType(f.Type, path+"."+f.Name)
		if err != nil {
			return nil, err
		}
		if f.Name == "_" {
			continue
		}
		blockLens, displs, types = append(blockLens, 1), append(displs, int64(f.Offset)), append(types, t)
	}
	t, err := Struct(blockLens, displs, types)
	if err != nil {
		return nil, err
	}
	if lb, extent := t.Extent(); lb == 0 && extent == int64(rt.Size()) {
		return t, nil
	}
	return Resized(0, int64(rt.Size()), t)
}

// mpiPackage is the package of the Go types that kindTable names.
const mpiPackage = "github.com/ibrun/ibrun/mpi"

// goKind has the kinds of the Go types with one reflect.Kind: those of the types of package mpi
// that have a kind of their own, and that of all others.
type goKind struct {
	named  []Kind
	others Kind
}

// goKinds is indexed by reflect.Kind. It ends with the last basic one.
var goKinds = newGoKinds()

func newGoKinds() (ks [reflect.Complex128 + 1]goKind) {
	for k := Kind(1); k < Kinds; k++ {
		switch row := &kindTable[k]; {
		case row.goKind == 0:
		case row.goType != "":
			ks[row.goKind].named = append(ks[row.goKind].named, k)
		default:
			ks[row.goKind].others = k
		}
	}
	signed, unsigned := Int32, Uint32
	if bits.UintSize == 64 {
		signed, unsigned = Int64, Uint64
	}
	ks[reflect.Int].others, ks[reflect.Uint].others, ks[reflect.Uintptr].others = signed, unsigned, unsigned
	return ks
}

// KindOf returns the kind of a basic Go type, and 0 for other types. It does not allocate.
func KindOf(rt reflect.Type) Kind {
	if int(rt.Kind()) >= len(goKinds) {
		return 0
	}
	g := &goKinds[rt.Kind()]
	for _, k := range g.named {
		if rt.Name() == kindTable[k].goType && rt.PkgPath() == mpiPackage {
			return k
		}
	}
	return g.others
}
