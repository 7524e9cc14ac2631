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

// LookupLoc returns the reduction of pairs for MinLoc or MaxLoc, and whether there is one: value
// must be an integer or a floating-point number of 32 or 64 bits, and at is Int32 or Int64.
func LookupLoc(op Op, value, at datatype.Kind) (Func, bool) {
	if op != MinLoc && op != MaxLoc || value >= datatype.Kinds {
		return nil, false
	}
	f := table[value].pairs[op-MinLoc]
	if at == datatype.Int64 {
		f = table[value].pairs[2+op-MinLoc]
	}
	return f, f != nil && (at == datatype.Int32 || at == datatype.Int64)
}

// pairFunctions are MinLoc and MaxLoc with locations of Int32, and then those with locations of Int64.
// nil stands for values on which they are not defined.
type pairFunctions [4]Func

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
