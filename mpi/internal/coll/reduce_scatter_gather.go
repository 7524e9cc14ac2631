package coll

// reduceScatterGather: each rank gets one part of the sum by recursive halving, and the root collects the parts
// (Rabenseifner).
//
// Cost: 2 * lg n * a + 2 * m*b + m*g, and a + m*b + m*g more where n is no power of two.
func reduceScatterGather(p Peer, dst, src []byte, op *Operation, root int) error {
	f := newFold(p)
	m := len(src)
	have, tmp := p.Scratch(m), p.Scratch(m)
	copy(have, src)
	have, tmp, err := f.in(have, tmp, op)
	if err != nil {
		return err
	}
	parts := cut{m / op.ElemSize, op.ElemSize, f.power}
	part := -1
	if f.self >= 0 {
		if have, part, err = f.halve(have, tmp, parts, op); err != nil {
			return err
		}
	}
	if p.Rank() != root {
		if part < 0 {
			return nil
		}
		return p.Send(root, parts.of(have, part))
	}
	hs := handles(p, f.power)
	for i := range f.power {
		out := parts.of(dst, f.part(i))
		if i == f.self {
			copy(out, parts.of(have, part))
			continue
		}
		h, err := p.Irecv(f.rank(i), out)
		if err != nil {
			return err
		}
		hs = append(hs, h)
	}
	return p.Waitall(hs)
}
