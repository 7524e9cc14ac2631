package datatype

import "math/bits"

// Signature identifies the sequence of the kinds of elements in a message. Two equal sequences have equal signatures, however
// their types were made; two different ones have different signatures but for a probability of about 2^-58. Ranks compare them
// with ==. MPI-5.0 §5.1.
//
// Long has the signature of Int64 and ULong that of Uint64, since they are the same type in a program.
type Signature struct {
	// Hash depends on all kinds and their order.
	Hash uint64
	// Count is the number of elements.
	Count int64
}

// Concat returns the signature of the elements of s followed by those of t.
func (s Signature) Concat(t Signature) Signature {
	return Signature{addMod(s.Hash, mulMod(powMod(radix, s.Count), t.Hash)), s.Count + t.Count}
}

// Repeat returns the signature of n times the elements of s, n not negative.
func (s Signature) Repeat(n int64) Signature {
	m := mapSum{count: s.Count, pow: powMod(radix, s.Count), kinds: s.Hash}
	return m.repeat(n, 0).signature()
}

// mapSum describes a type map, a sequence of kinds and displacements, by the values of polynomials at radix, modulo prime:
// the kth element contributes to the coefficient of radix^k. So the sums of concatenated and displaced type maps follow from
// those of the operands, and those of n copies take log n steps.
type mapSum struct {
	count int64  // elements
	pow   uint64 // radix^count
	kinds uint64 // sum of symbol(kind) * radix^k
	displ uint64 // sum of displacement * radix^k
	ones  uint64 // sum of radix^k
}

const (
	prime = 1<<61 - 1
	radix = 0x1b873593cc9e2d51 % prime // any number between 1 and prime of which no small power is 1 modulo prime
)

func emptySum() mapSum { return mapSum{pow: 1} }

func leafSum(k Kind) mapSum {
	return mapSum{count: 1, pow: radix, kinds: symbol(k), ones: 1}
}

// symbol returns the coefficient of a kind.
func symbol(k Kind) uint64 {
	switch k {
	case Long:
		k = Int64
	case ULong:
		k = Uint64
	}
	x := uint64(k) * 0x9e3779b97f4a7c15
	return (x ^ x>>29) * 0xbf58476d1ce4e5b9 % prime
}

func (s mapSum) signature() Signature { return Signature{s.kinds, s.count} }

// concat returns the sum of the elements of s followed by those of t.
func (s mapSum) concat(t mapSum) mapSum {
	return mapSum{
		count: s.count + t.count,
		pow:   mulMod(s.pow, t.pow),
		kinds: addMod(s.kinds, mulMod(s.pow, t.kinds)),
		displ: addMod(s.displ, mulMod(s.pow, t.displ)),
		ones:  addMod(s.ones, mulMod(s.pow, t.ones)),
	}
}

// shift returns the sum of the elements displaced by d.
func (s mapSum) shift(d int64) mapSum { return s.shiftMod(residue(d)) }

// shiftTimes returns the sum of the elements displaced by n*d.
func (s mapSum) shiftTimes(n, d int64) mapSum { return s.shiftMod(mulMod(residue(n), residue(d))) }

func (s mapSum) shiftMod(d uint64) mapSum {
	s.displ = addMod(s.displ, mulMod(d, s.ones))
	return s
}

// repeat returns the sum of n copies of the elements, the next one displaced by stride.
func (s mapSum) repeat(n, stride int64) mapSum {
	out, outSpan, span := emptySum(), uint64(0), residue(stride)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			out = out.concat(s.shiftMod(outSpan))
			outSpan = addMod(outSpan, span)
		}
		if n > 1 {
			s = s.concat(s.shiftMod(span))
			span = addMod(span, span)
		}
	}
	return out
}

// residue returns n modulo prime.
func residue(n int64) uint64 {
	r := magnitude(n) % prime
	if n < 0 && r != 0 {
		r = prime - r
	}
	return r
}

func addMod(a, b uint64) uint64 {
	s := a + b
	if s >= prime {
		s -= prime
	}
	return s
}

func mulMod(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return addMod(lo&prime, hi<<3|lo>>61)
}

func powMod(x uint64, n int64) uint64 {
	p := uint64(1)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p = mulMod(p, x)
		}
		x = mulMod(x, x)
	}
	return p
}
