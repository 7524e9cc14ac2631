package reduction

import (
	"math"
	"reflect"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// pairs returns memory that has a copy of pairs, and the copy.
func pairs[T any](x ...T) ([]byte, []T) {
	b := make([]byte, len(x)*int(reflect.TypeFor[T]().Size()))
	in, _, _ := elements[T](b, b, b)
	copy(in, x)
	return b, in
}

// checkLoc combines values with locations 2 and 1, and compares the result in both orders of operands.
func checkLoc[T ordered, L location](t *testing.T, value, at datatype.Kind) {
	t.Helper()
	low, high := T(1), T(100)
	for op, want := range map[Op]pair[T, L]{MinLoc: {low, 1}, MaxLoc: {high, 2}} {
		f, ok := LookupLoc(op, value, at)
		if !ok {
			t.Fatalf("no %v of %v", op, value)
		}
		a, _ := pairs(pair[T, L]{high, 2}, pair[T, L]{low, 7}, pair[T, L]{low, 3})
		b, _ := pairs(pair[T, L]{low, 1}, pair[T, L]{low, 5}, pair[T, L]{low, 3})
		for range 2 {
			dst, got := pairs(make([]pair[T, L], 3)...)
			f(dst, a, b)
			if got[0] != want || got[1] != (pair[T, L]{low, 5}) || got[2] != (pair[T, L]{low, 3}) {
				t.Errorf("%v of %v, at %v: %v", op, value, at, got)
			}
			a, b = b, a
		}
	}
}

// TestLoc: the least or greatest value with the lowest location, for every kind of values and locations.
func TestLoc(t *testing.T) {
	for value, check := range map[datatype.Kind]func(t *testing.T, value, at datatype.Kind){
		datatype.Int8: checkLoc[int8, int32], datatype.Int16: checkLoc[int16, int32], datatype.Int32: checkLoc[int32, int32],
		datatype.Int64: checkLoc[int64, int32], datatype.Uint8: checkLoc[uint8, int32], datatype.Uint16: checkLoc[uint16, int32],
		datatype.Uint32: checkLoc[uint32, int32], datatype.Uint64: checkLoc[uint64, int32],
		datatype.Float32: checkLoc[float32, int32], datatype.Float64: checkLoc[float64, int32],
	} {
		check(t, value, datatype.Int32)
	}
	for value, check := range map[datatype.Kind]func(t *testing.T, value, at datatype.Kind){
		datatype.Int8: checkLoc[int8, int64], datatype.Int16: checkLoc[int16, int64], datatype.Int32: checkLoc[int32, int64],
		datatype.Int64: checkLoc[int64, int64], datatype.Uint8: checkLoc[uint8, int64], datatype.Uint16: checkLoc[uint16, int64],
		datatype.Uint32: checkLoc[uint32, int64], datatype.Uint64: checkLoc[uint64, int64],
		datatype.Float32: checkLoc[float32, int64], datatype.Float64: checkLoc[float64, int64],
	} {
		check(t, value, datatype.Int64)
	}
	for _, c := range []struct {
		op        Op
		value, at datatype.Kind
	}{{Sum, datatype.Int32, datatype.Int32}, {MinLoc, datatype.Complex64, datatype.Int32}, {MinLoc, datatype.Int32, datatype.Int16},
		{MaxLoc, datatype.Kinds, datatype.Int32}} {
		if _, ok := LookupLoc(c.op, c.value, c.at); ok {
			t.Errorf("%v of %v at %v", c.op, c.value, c.at)
		}
	}
}

// TestLocNaN: a NaN is the result, with the lowest location of one, in any order.
func TestLocNaN(t *testing.T) {
	nan := math.NaN()
	x := []pair[float64, int32]{{1, 0}, {nan, 4}, {-1, 1}, {nan, 3}}
	for _, op := range []Op{MinLoc, MaxLoc} {
		f, _ := LookupLoc(op, datatype.Float64, datatype.Int32)
		for first := range x {
			dst, got := pairs(x[first])
			for i := 1; i < len(x); i++ {
				next, _ := pairs(x[(first+i)%len(x)])
				f(dst, dst, next)
			}
			if !math.IsNaN(got[0].value) || got[0].at != 3 {
				t.Errorf("%v from %d: %v", op, first, got)
			}
		}
	}
}
