package datatype

import (
	"iter"
	"math"
	"sync/atomic"
)

// Type is a datatype: a type map, which is a sequence of basic elements with their displacements, and the bounds that say
// where the next element of this type begins. It does not change, but for Commit; all methods may be called concurrently.
type Type struct {
	name string  // of a predefined type, or of the Go type
	data *layout // nil without elements
	// lb and ub are the bounds. explicit says that they come from markers and not from the elements.
	lb, ub   int64
	explicit bool
	contents Contents
	program  atomic.Pointer[program] // nil before Commit
}

// newType returns a type with bounds that follow from its elements: MPI-5.0 §5.1, equation 5.2 (the ub is increased until the
// extent is a multiple of the greatest alignment).
func (c *checked) newType(constructor string, data *layout, contents Contents) (*Type, error) {
	t := &Type{data: data, contents: contents}
	if data != nil {
		t.lb = data.lo
		t.ub = c.add(data.lo, c.roundUp(c.sub(data.hi, data.lo), data.align))
	}
	if err := c.err(constructor); err != nil {
		return nil, err
	}
	return t, nil
}

// newBounded returns a type with explicit bounds.
func (c *checked) newBounded(constructor string, data *layout, b bounds, contents Contents) (*Type, error) {
	if !b.any {
		return c.newType(constructor, data, contents)
	}
	c.sub(b.ub, b.lb)
	if data != nil {
		c.sub(data.hi, data.lo)
	}
	if err := c.err(constructor); err != nil {
		return nil, err
	}
	return &Type{data: data, lb: b.lb, ub: b.ub, explicit: true, contents: contents}, nil
}

// bounds collects the markers of bounds of the types of which a type consists.
type bounds struct {
	any    bool
	lb, ub int64
}

// copies adds the markers of n copies of t, the first at displacement off and each of the others displaced by stride.
func (b *bounds) copies(c *checked, off, n, stride int64, t *Type) {
	if !t.explicit || n == 0 {
		return
	}
	last := c.mul(n-1, stride)
	lb := c.add(c.add(off, min(0, last)), t.lb)
	ub := c.add(c.add(off, max(0, last)), t.ub)
	if b.any {
		lb, ub = min(lb, b.lb), max(ub, b.ub)
	}
	b.any, b.lb, b.ub = true, lb, ub
}

// Name returns the name of a predefined type, such as "MPI_INT", or of the Go type, and "" for other types.
func (t *Type) Name() string { return t.name }

// Kind returns the kind of the elements if all are of one kind, and 0 otherwise.
func (t *Type) Kind() Kind {
	if t.data == nil {
		return 0
	}
	return t.data.kind
}

// Size returns the bytes of the elements, without gaps. MPI-5.0 §5.1.5.
func (t *Type) Size() int64 {
	if t.data == nil {
		return 0
	}
	return t.data.size
}

// ExternalSize returns the bytes of the elements in external32 data. MPI-5.0 §5.3.
func (t *Type) ExternalSize() int64 {
	if t.data == nil {
		return 0
	}
	return t.data.external
}

// Extent returns the lower bound and the extent, the distance between successive elements of this type. MPI-5.0 §5.1.7.
func (t *Type) Extent() (lb, extent int64) { return t.lb, t.ub - t.lb }

// TrueExtent returns the lowest displacement of data, and the distance from there to the end of the highest; 0 and 0 without
// elements. It ignores explicit bounds. MPI-5.0 §5.1.8.
func (t *Type) TrueExtent() (lb, extent int64) {
	if t.data == nil {
		return 0, 0
	}
	return t.data.lo, t.data.hi - t.data.lo
}

// Elements returns the number of basic elements.
func (t *Type) Elements() int64 {
	if t.data == nil {
		return 0
	}
	return t.data.sum.count
}

// Signature returns the signature of one element of this type.
func (t *Type) Signature() Signature {
	if t.data == nil {
		return Signature{}
	}
	return t.data.sum.signature()
}

// SignatureOf returns the signature of the basic elements in the first n bytes of elements of this type, as a message that is
// shorter than its receive has. ok is false if the last basic element is incomplete, or if n is negative, or not 0 for a type
// without elements. MPI-5.0 §3.2.5.
func (t *Type) SignatureOf(n int64) (s Signature, ok bool) {
	if n == 0 || t.data == nil || n < 0 {
		return Signature{}, n == 0
	}
	return t.data.signatureOf(n)
}

// signatureOf returns the signature of the basic elements in the first n bytes of copies of l. ok is false if the last one is
// incomplete.
func (l *layout) signatureOf(n int64) (s Signature, ok bool) {
	whole := n / l.size
	last, ok := l.prefix(n - whole*l.size)
	return l.sum.repeat(whole, 0).concat(last).signature(), ok
}

// SizeOf returns the bytes of the first count basic elements of elements of this type: the inverse of SignatureOf. ok is false if
// count is negative, or not 0 for a type without elements, or if the bytes exceed an int64.
func (t *Type) SizeOf(count int64) (n int64, ok bool) {
	elements := t.Elements()
	if count <= 0 || elements == 0 {
		return 0, count == 0
	}
	whole, rest := count/elements, count%elements
	if whole >= math.MaxInt64/t.data.size {
		return 0, false
	}
	n = whole * t.data.size
	for k, run := range t.Runs() {
		run = min(run, rest)
		n += run * int64(k.Size())
		if rest -= run; rest == 0 {
			break
		}
	}
	return n, true
}

// Runs returns the kinds of the basic elements of one element in order, each with the number that follow one another.
func (t *Type) Runs() iter.Seq2[Kind, int64] {
	return func(yield func(Kind, int64) bool) {
		if t.data == nil {
			return
		}
		kind, count := Kind(0), int64(0)
		more := t.data.runs(func(k Kind, n int64) bool {
			if k == kind || count == 0 {
				kind, count = k, count+n
				return true
			}
			ok := yield(kind, count)
			kind, count = k, n
			return ok
		})
		if more {
			yield(kind, count)
		}
	}
}

// Equal reports whether two types have the same type map and the same bounds. The type maps are compared by a hash: types that
// differ are taken for equal with a probability of about 2^-58. It takes the same time for all types.
func (t *Type) Equal(u *Type) bool {
	if t.lb != u.lb || t.ub != u.ub || t.explicit != u.explicit || t.data == nil || u.data == nil {
		return t.lb == u.lb && t.ub == u.ub && t.explicit == u.explicit && t.data == u.data
	}
	return t.data.sum == u.data.sum && t.data.lo == u.data.lo && t.data.hi == u.data.hi && t.data.size == u.data.size
}

// Commit compiles the type, so that it can move data. Further calls have no effect. MPI-5.0 §5.1.9.
func (t *Type) Commit() {
	if t.program.Load() == nil {
		t.program.CompareAndSwap(nil, compile(t))
	}
}

// Committed reports whether Commit was called, or the type is predefined or made of a Go type.
func (t *Type) Committed() bool { return t.program.Load() != nil }
