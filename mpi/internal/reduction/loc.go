package reduction

import "github.com/ibrun/ibrun/mpi/internal/datatype"

// MinLoc and MaxLoc reduce pairs of a value and its location, which are structs with these two fields. The result is the least or
// the greatest value with the lowest of its locations. A NaN is less and greater than all numbers. MPI-5.0 §6.9.4.
const (
	MinLoc Op = 0x38
	MaxLoc Op = 0x39
)

type ordered interface{ integer | floating }

// location is the type of a location.
type location interface{ int32 | int64 }

type pair[T ordered, L location] struct {
	value T
	at    L
}

// LookupLoc returns the reduction of pairs for MinLoc or MaxLoc, and whether there is one: value must not be complex, and at is
// Int32 or Int64.
func LookupLoc(op Op, value, at datatype.Kind) (Func, bool) {
	if op != MinLoc && op != MaxLoc || value >= datatype.Kinds {
		return nil, false
	}
	f := located[value][op-MinLoc]
	if at == datatype.Int64 {
		f = located[value][2+op-MinLoc]
	}
	return f, f != nil && (at == datatype.Int32 || at == datatype.Int64)
}

// located has MinLoc and MaxLoc, with locations of Int32 and of Int64.
var located = [datatype.Kinds][4]Func{
	datatype.Int8:    {minLoc[int8, int32], maxLoc[int8, int32], minLoc[int8, int64], maxLoc[int8, int64]},
	datatype.Int16:   {minLoc[int16, int32], maxLoc[int16, int32], minLoc[int16, int64], maxLoc[int16, int64]},
	datatype.Int32:   {minLoc[int32, int32], maxLoc[int32, int32], minLoc[int32, int64], maxLoc[int32, int64]},
	datatype.Int64:   {minLoc[int64, int32], maxLoc[int64, int32], minLoc[int64, int64], maxLoc[int64, int64]},
	datatype.Uint8:   {minLoc[uint8, int32], maxLoc[uint8, int32], minLoc[uint8, int64], maxLoc[uint8, int64]},
	datatype.Uint16:  {minLoc[uint16, int32], maxLoc[uint16, int32], minLoc[uint16, int64], maxLoc[uint16, int64]},
	datatype.Uint32:  {minLoc[uint32, int32], maxLoc[uint32, int32], minLoc[uint32, int64], maxLoc[uint32, int64]},
	datatype.Uint64:  {minLoc[uint64, int32], maxLoc[uint64, int32], minLoc[uint64, int64], maxLoc[uint64, int64]},
	datatype.Float32: {minLoc[float32, int32], maxLoc[float32, int32], minLoc[float32, int64], maxLoc[float32, int64]},
	datatype.Float64: {minLoc[float64, int32], maxLoc[float64, int32], minLoc[float64, int64], maxLoc[float64, int64]},
}

func minLoc[T ordered, L location](dst, a, b []byte) {
	d, x, y := elements[pair[T, L]](dst, a, b)
	for i := range d {
		p, q := x[i], y[i]
		if q.value < p.value || q.value != q.value && p.value == p.value || bothEqual(p.value, q.value) && q.at < p.at {
			p = q
		}
		d[i] = p
	}
}

func maxLoc[T ordered, L location](dst, a, b []byte) {
	d, x, y := elements[pair[T, L]](dst, a, b)
	for i := range d {
		p, q := x[i], y[i]
		if q.value > p.value || q.value != q.value && p.value == p.value || bothEqual(p.value, q.value) && q.at < p.at {
			p = q
		}
		d[i] = p
	}
}

// bothEqual reports whether two values are equal or both NaN.
func bothEqual[T ordered](x, y T) bool { return x == y || x != x && y != y }
