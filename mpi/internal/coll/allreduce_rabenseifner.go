package coll

// allreduceRabenseifner: each rank computes one part of the sum by recursive halving, and then collects all parts by
// recursive doubling, with the same partners in reverse order.
//
// Cost: 2 * lg n * a + (2 * m*b + m*g) * (n-1)/n, and 2 * (a + m*b) + m*g more if n is not a power of two.
func allreduceRabenseifner(p Peer, dst, src []byte, op *Operation) error {
	return allreduceHalving(p, dst, src, op, nil)
}

// allreduceHalving is allreduceRabenseifner that combines each part with the same parts of the ranks of another Peer before the
// parts are collected; nil: there is none.
func allreduceHalving(p Peer, dst, src []byte, op *Operation, between Peer) error {
	f := newPowerOfTwoGroup(p)
	dst = dst[:len(src)]
	if !inPlace(dst, src) {
		p.Copy(dst, src)
	}
	have, tmp, err := f.reduceExtra(dst, p.Scratch(len(src)), op)
	if err != nil {
		return err
	}
	if f.index >= 0 {
		parts := partition{len(src) / op.ElemSize, op.ElemSize, f.power}
		have, lo, err := f.halve(have, tmp, parts, op)
		if err != nil {
			return err
		}
		mine := parts.part(dst, lo)
		if !inPlace(dst, have) {
			p.Copy(mine, parts.part(have, lo))
		}
		if between != nil {
			if err := Allreduce(between, mine, mine, op); err != nil {
				return err
			}
		}
		for d, w := f.power/2, 1; d > 0; d, w = d/2, w*2 { // this rank has w parts from lo on
			theirs := lo ^ w
			to := f.rank(f.index ^ d)
			if err := p.Sendrecv(to, parts.span(dst, lo, lo+w), to, parts.span(dst, theirs, theirs+w)); err != nil {
				return err
			}
			lo &= theirs
		}
	}
	return f.sendResult(dst)
}
