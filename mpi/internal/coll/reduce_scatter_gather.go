package coll

// reduceScatterGather: each rank computes one part of the sum by recursive halving, and the root gathers the parts
// (Rabenseifner).
//
// Cost: 2 * lg n * a + 2 * m*b + m*g, and a + m*b + m*g more if n is not a power of two.
func reduceScatterGather(p Peer, dst, src []byte, op *Operation, root int) error {
	f := newPowerOfTwoGroup(p)
	m := len(src)
	have, tmp := p.Scratch(m), p.Scratch(m)
	p.Copy(have, src)
	have, tmp, err := f.reduceExtra(have, tmp, op)
	if err != nil {
		return err
	}
	parts := partition{m / op.ElemSize, op.ElemSize, f.power}
	part := -1
	if f.index >= 0 {
		if have, part, err = f.halve(have, tmp, parts, op); err != nil {
			return err
		}
	}
	if p.Rank() != root {
		if part < 0 {
			return nil
		}
		return p.Send(root, parts.part(have, part))
	}
	hs := handles(p, f.power)
	for i := range f.power {
		out := parts.part(dst, f.part(i))
		if i == f.index {
			p.Copy(out, parts.part(have, part))
			continue
		}
		h, err := p.Irecv(f.rank(i), out)
		if err != nil {
			return abandon(p, hs, err)
		}
		hs = append(hs, h)
	}
	return p.Waitall(hs)
}
