package coll

// allreduceDoubling: in step k pairs of ranks 2^k apart exchange their data, and both combine it.
//
// Cost: lg n * (a + m*b + m*g), and 2 * (a + m*b) + m*g more if n is not a power of two.
func allreduceDoubling(p Peer, dst, src []byte, op *Operation) error {
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
		for d := 1; d < f.power; d *= 2 {
			to := f.rank(f.index ^ d)
			if err := p.Sendrecv(to, have, to, tmp); err != nil {
				return err
			}
			if f.index&d == 0 {
				p.Combine(op, have, have, tmp)
			} else {
				p.Combine(op, tmp, tmp, have)
				have, tmp = tmp, have
			}
		}
		if !inPlace(dst, have) {
			p.Copy(dst, have)
		}
	}
	return f.sendResult(dst)
}
