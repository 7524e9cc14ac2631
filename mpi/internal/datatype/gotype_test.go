package datatype

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/alloctest"
)

type inner struct {
	A bool
	B int16
	_ [4]byte
	C uint8
}

type particle struct {
	Pos  [3]float64
	ID   int
	Tags [2]inner
	Z    complex64
	End  byte
}

type kelvin float64

func TestGoTypes(t *testing.T) {
	var g GoTypes
	p, err := g.Of(reflect.TypeFor[particle]())
	if err != nil {
		t.Fatal(err)
	}
	lb, extent := p.Extent()
	if lb != 0 || extent != int64(reflect.TypeFor[particle]().Size()) || p.Size() != 24+8+2*4+8+1 || !p.Committed() ||
		p.Name() != "datatype.particle" {
		t.Errorf("%s: lb %d, extent %d, size %d", p.Name(), lb, extent, p.Size())
	}
	var kinds []Kind
	for k, n := range p.Runs() {
		for range n {
			kinds = append(kinds, k)
		}
	}
	want := []Kind{Float64, Float64, Float64, Int64, Bool, Int16, Uint8, Bool, Int16, Uint8, Complex64, Uint8}
	if !reflect.DeepEqual(kinds, want) {
		t.Errorf("elements %v, want %v", kinds, want)
	}
	if again, err := g.Of(reflect.TypeFor[particle]()); again != p || err != nil {
		t.Error("the type is made twice")
	}
	if n := alloctest.Count(10, func() { g.Of(reflect.TypeFor[particle]()) }); n != 0 {
		t.Errorf("a known type allocates %v times", n)
	}
	for _, c := range []struct {
		rt   reflect.Type
		want *Type
	}{
		{reflect.TypeFor[kelvin](), OfKind(Float64)},
		{reflect.TypeFor[uintptr](), OfKind(Uint64)},
		{reflect.TypeFor[[6]uint32](), must(Contiguous(6, OfKind(Uint32)))},
		{reflect.TypeFor[struct{}](), must(Contiguous(0, OfKind(Byte)))},
		{reflect.TypeFor[struct{ X, Y float32 }](), must(Contiguous(2, OfKind(Float32)))},
	} {
		got, err := g.Of(c.rt)
		if _, extent := got.Extent(); err != nil || got.Signature() != c.want.Signature() || extent != int64(c.rt.Size()) {
			t.Errorf("%v: %v %v", c.rt, got, err)
		}
	}
	if b, err := p.Buffer(make([]byte, 2*extent), 0, 2); err != nil || b.Size() != 2*p.Size() {
		t.Errorf("a buffer of two: %v", err)
	}
}

// TestGoTypesWithPointers requires that the error names the field.
func TestGoTypesWithPointers(t *testing.T) {
	type deep struct {
		N    int
		List [2]struct{ Name string }
	}
	var g GoTypes
	for _, c := range []struct {
		rt   reflect.Type
		path string
	}{
		{reflect.TypeFor[deep](), "datatype.deep.List[].Name is of Go type string"},
		{reflect.TypeFor[*int](), "*int is of Go type *int"},
		{reflect.TypeFor[struct{ X []int }](), ".X is of"},
		{reflect.TypeFor[struct{ X map[int]int }](), ".X is of"},
		{reflect.TypeFor[struct{ X any }](), ".X is of"},
		{reflect.TypeFor[struct{ X chan int }](), ".X is of"},
		{reflect.TypeFor[struct{ X func() }](), ".X is of"},
		{reflect.TypeFor[struct{ _ *int }](), "._ is of"},
	} {
		for range 2 {
			if _, err := g.Of(c.rt); !errors.Is(err, ErrNoElement) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("%v: %v, want %q", c.rt, err, c.path)
			}
		}
	}
}
