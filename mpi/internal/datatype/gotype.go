package datatype

import (
	"fmt"
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
	if k := kindOf(rt); k != 0 {
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

// goKinds maps Go's kinds to kinds of elements, but for those whose size depends on the machine.
var goKinds = [...]Kind{
	reflect.Bool: Bool, reflect.Int8: Int8, reflect.Int16: Int16, reflect.Int32: Int32, reflect.Int64: Int64,
	reflect.Uint8: Uint8, reflect.Uint16: Uint16, reflect.Uint32: Uint32, reflect.Uint64: Uint64,
	reflect.Float32: Float32, reflect.Float64: Float64, reflect.Complex64: Complex64, reflect.Complex128: Complex128,
}

// kindOf returns the kind of a basic Go type, and 0 for other types.
func kindOf(rt reflect.Type) Kind {
	switch k := rt.Kind(); {
	case k == reflect.Int && rt.Size() == 8:
		return Int64
	case k == reflect.Int:
		return Int32
	case (k == reflect.Uint || k == reflect.Uintptr) && rt.Size() == 8:
		return Uint64
	case k == reflect.Uint || k == reflect.Uintptr:
		return Uint32
	case k == reflect.Uint16:
		return HalfKind(rt)
	case int(k) < len(goKinds):
		return goKinds[k]
	}
	return 0
}

// halfPackage is the package of the Go types that are numbers of 16 bits with a fraction, and halfKinds has the kinds of
// these types.
const halfPackage = "github.com/ibrun/ibrun/mpi"

var halfKinds = map[string]Kind{"Float16": Float16, "BFloat16": BFloat16}

// HalfKind returns the kind of a Go type that is a uint16: Float16, BFloat16 or Uint16.
func HalfKind(rt reflect.Type) Kind {
	if k, ok := halfKinds[rt.Name()]; ok && rt.PkgPath() == halfPackage {
		return k
	}
	return Uint16
}
