package coll

// scan: in step k each rank combines its partial sum, which covers the 2^k ranks up to itself, with that of the rank 2^k
// before it (Hillis and Steele).
//
// Cost: lg n * (a + m*b + m*g), for any n.
func scan(p Peer, dst, src []byte, op *Operation) error {
	dst = dst[:len(src)]
	if !inPlace(dst, src) {
		p.Copy(dst, src)
	}
	have, err := prefix(p, 0, dst, p.Scratch(len(src)), op)
	if err != nil {
		return err
	}
	if !inPlace(dst, have) {
		p.Copy(dst, have)
	}
	return nil
}

// exscan: each rank sends its data to the next one, and then all but the first scan the data that they received.
//
// Cost: as scan, and a + m*b more.
func exscan(p Peer, dst, src []byte, op *Operation) error {
	rank, n := p.Rank(), p.Size()
	if rank == 0 {
		if n == 1 {
			return nil
		}
		return p.Send(1, src)
	}
	have := p.Scratch(len(src))
	if err := shift(p, 1, src, 0, have); err != nil {
		return err
	}
	dst = dst[:len(src)]
	have, err := prefix(p, 1, have, dst, op)
	if err != nil {
		return err
	}
	if !inPlace(dst, have) {
		p.Copy(dst, have)
	}
	return nil
}

// prefix combines this rank's data with those of the ranks before it, down to first. It returns the buffer with the result, have
// or tmp.
func prefix(p Peer, first int, have, tmp []byte, op *Operation) ([]byte, error) {
	rank, n := p.Rank(), p.Size()
	for d := 1; d < n-first; d *= 2 {
		if err := shift(p, d, have, first, tmp); err != nil {
			return nil, err
		}
		if rank-d >= first {
			p.Combine(op, tmp, tmp, have)
			have, tmp = tmp, have
		}
	}
	return have, nil
}

// shift sends s to the rank d after this one and receives r from the one d before it, if these ranks exist.
// Ranks below first do not take part.
func shift(p Peer, d int, s []byte, first int, r []byte) error {
	rank, n := p.Rank(), p.Size()
	up, down := rank+d, rank-d
	switch {
	case up < n && down >= first:
		return p.Sendrecv(up, s, down, r)
	case up < n:
		return p.Send(up, s)
	case down >= first:
		return p.Recv(down, r)
	}
	return nil
}
