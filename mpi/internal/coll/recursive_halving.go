package coll

import "math/bits"

// powerOfTwoGroup reduces the number of ranks to a power of two, for recursive doubling and halving. Let extra be the number of
// ranks above it: of the first 2 * extra ranks each even one sends its data to the odd one after it and leaves the group. The
// ranks combined in one rank are always neighbours, so operands are combined in rank order.
type powerOfTwoGroup struct {
	p     Peer
	power int // the largest power of two up to the number of ranks
	extra int // number of ranks outside the group
	index int // this rank's number in the group, or -1 if it is outside
}

func newPowerOfTwoGroup(p Peer) powerOfTwoGroup {
	n, rank := p.Size(), p.Rank()
	power := 1 << (bits.Len(uint(n)) - 1)
	f := powerOfTwoGroup{p: p, power: power, extra: n - power}
	switch {
	case rank >= 2*f.extra:
		f.index = rank - f.extra
	case rank%2 == 0:
		f.index = -1
	default:
		f.index = rank / 2
	}
	return f
}

// rank returns the rank in the communicator of member i of the group.
func (f *powerOfTwoGroup) rank(i int) int {
	if i < f.extra {
		return 2*i + 1
	}
	return i + f.extra
}

// reduceExtra combines the data of the ranks outside the group into those of their neighbours. It returns the buffer that holds
// the sum: have or tmp.
func (f *powerOfTwoGroup) reduceExtra(have, tmp []byte, op *Operation) (sum, spare []byte, err error) {
	rank := f.p.Rank()
	switch {
	case rank >= 2*f.extra:
		return have, tmp, nil
	case f.index < 0:
		return have, tmp, f.p.Send(rank+1, have)
	}
	if err := f.p.Recv(rank-1, tmp); err != nil {
		return nil, nil, err
	}
	f.p.Combine(op, tmp, tmp, have)
	return tmp, have, nil
}

// sendResult sends the result to the ranks outside the group.
func (f *powerOfTwoGroup) sendResult(result []byte) error {
	rank := f.p.Rank()
	switch {
	case rank >= 2*f.extra:
		return nil
	case f.index < 0:
		return f.p.Recv(rank+1, result)
	}
	return f.p.Send(rank-1, result)
}

// halve (recursive halving) leaves each member of the group with one part of the sum of all. With partners at the distances
// 1, 2, 4, ... it exchanges the half that it does not keep for their data of the half that it keeps. It returns the buffer that
// holds the part, and the part's number.
//
// Cost: lg n * a + (m*b + m*g) * (n-1)/n.
func (f *powerOfTwoGroup) halve(have, tmp []byte, parts partition, op *Operation) (sum []byte, part int, err error) {
	lo, hi := 0, f.power
	for d := 1; d < f.power; d *= 2 {
		mid := (lo + hi) / 2
		first := f.index&d == 0
		keep, send := parts.span(tmp, lo, mid), parts.span(have, mid, hi)
		if !first {
			keep, send = parts.span(tmp, mid, hi), parts.span(have, lo, mid)
		}
		to := f.rank(f.index ^ d)
		if err := f.p.Sendrecv(to, send, to, keep); err != nil {
			return nil, 0, err
		}
		if first {
			hi = mid
			own := parts.span(have, lo, hi)
			f.p.Combine(op, own, own, keep)
		} else {
			lo = mid
			f.p.Combine(op, keep, keep, parts.span(have, lo, hi))
			have, tmp = tmp, have
		}
	}
	return have, lo, nil
}

// part returns the number of the part that halve leaves with member i of the group: i with its bits in reverse order, because the
// lowest bit decides first.
func (f *powerOfTwoGroup) part(i int) int {
	return int(bits.Reverse64(uint64(i)) >> (64 - bits.Len(uint(f.power-1))))
}
