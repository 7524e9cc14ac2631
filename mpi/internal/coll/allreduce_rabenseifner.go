package coll

// allreduceRabenseifner: each rank gets one part of the sum by recursive halving, and all parts by recursive
// doubling, which is the same way back.
//
// Cost: 2 * lg n * a + (2 * m*b + m*g) * (n-1)/n, and 2 * (a + m*b) + m*g more where n is no power of two.
func allreduceRabenseifner(p Peer, dst, src []byte, op *Operation) error {
	f := newFold(p)
	dst = dst[:len(src)]
	if !inPlace(dst, src) {
		copy(dst, src)
	}
	have, tmp, err := f.in(dst, p.Scratch(len(src)), op)
	if err != nil {
		return err
	}
	if f.self >= 0 {
		parts := cut{len(src) / op.ElemSize, op.ElemSize, f.power}
		have, lo, err := f.halve(have, tmp, parts, op)
		if err != nil {
			return err
		}
		if !inPlace(dst, have) {
			copy(parts.of(dst, lo), parts.of(have, lo))
		}
		for d, w := f.power/2, 1; d > 0; d, w = d/2, w*2 { // w parts from lo on are there
			theirs := lo ^ w
			to := f.rank(f.self ^ d)
			if err := p.Sendrecv(to, parts.span(dst, lo, lo+w), to, parts.span(dst, theirs, theirs+w)); err != nil {
				return err
			}
			lo &= theirs
		}
	}
	return f.out(dst)
}
