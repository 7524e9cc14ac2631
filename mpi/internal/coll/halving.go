package coll

import "math/bits"

// fold makes the number of ranks a power of two: of the first ranks, as many as are too many, each even one hands
// its data to the odd one after it and is out. A group of ranks that have been combined is always one of
// neighbours, so the order of operands is that of ranks.
type fold struct {
	p     Peer
	power int // the largest power of two that is not above the number of ranks
	extra int // how many ranks are out
	self  int // this rank's number among those that are in, or -1
}

func newFold(p Peer) fold {
	n, rank := p.Size(), p.Rank()
	power := 1 << (bits.Len(uint(n)) - 1)
	f := fold{p: p, power: power, extra: n - power}
	switch {
	case rank >= 2*f.extra:
		f.self = rank - f.extra
	case rank%2 == 0:
		f.self = -1
	default:
		f.self = rank / 2
	}
	return f
}

// rank is the number in the communicator of the one with a number among those that are in.
func (f *fold) rank(i int) int {
	if i < f.extra {
		return 2*i + 1
	}
	return i + f.extra
}

// in combines the data of the ranks that go out into those of their neighbours. It returns where the sum is: have
// or tmp.
func (f *fold) in(have, tmp []byte, op *Operation) (sum, spare []byte, err error) {
	rank := f.p.Rank()
	switch {
	case rank >= 2*f.extra:
		return have, tmp, nil
	case f.self < 0:
		return have, tmp, f.p.Send(rank+1, have)
	}
	if err := f.p.Recv(rank-1, tmp); err != nil {
		return nil, nil, err
	}
	op.Kernel(tmp, tmp, have)
	return tmp, have, nil
}

// out gives the result to the ranks that are out.
func (f *fold) out(result []byte) error {
	rank := f.p.Rank()
	switch {
	case rank >= 2*f.extra:
		return nil
	case f.self < 0:
		return f.p.Recv(rank+1, result)
	}
	return f.p.Send(rank-1, result)
}

// halve leaves each rank that is in with one part of the sum of all: with partners 1, 2, 4, ... away it exchanges
// the half that it does not keep for their data of the half that it keeps. It returns the buffer that holds the
// part, and the part's number.
//
// Cost: lg n * a + (m*b + m*g) * (n-1)/n.
func (f *fold) halve(have, tmp []byte, parts cut, op *Operation) (sum []byte, part int, err error) {
	lo, hi := 0, f.power
	for d := 1; d < f.power; d *= 2 {
		mid := (lo + hi) / 2
		first := f.self&d == 0
		keep, give := parts.span(tmp, lo, mid), parts.span(have, mid, hi)
		if !first {
			keep, give = parts.span(tmp, mid, hi), parts.span(have, lo, mid)
		}
		to := f.rank(f.self ^ d)
		if err := f.p.Sendrecv(to, give, to, keep); err != nil {
			return nil, 0, err
		}
		if first {
			hi = mid
			own := parts.span(have, lo, hi)
			op.Kernel(own, own, keep)
		} else {
			lo = mid
			op.Kernel(keep, keep, parts.span(have, lo, hi))
			have, tmp = tmp, have
		}
	}
	return have, lo, nil
}

// part is the number of the part that halve leaves with the rank that has number i among those that are in: i with
// its bits in reverse order, as the lowest bit decided first.
func (f *fold) part(i int) int {
	return int(bits.Reverse64(uint64(i)) >> (64 - bits.Len(uint(f.power-1))))
}
