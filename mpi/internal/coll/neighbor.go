package coll

// Edges are the neighbors of a rank in a graph: it receives a block from each source and sends one to each destination. A number
// below 0 is not a rank: it has a block, which does not move. A rank may be its own neighbor.
//
// If two ranks have several edges, their messages are matched in the order of the lists. Opposite says that the graph is a grid,
// where the sources of each dimension, two that follow each other, are to be taken in reverse order: what is sent in one
// direction comes from the other.
type Edges struct {
	Sources, Destinations []int
	Opposite              bool
}

// source returns source i in the order of messages, and the number of its block.
func (e *Edges) source(i int) (rank, block int) {
	if e.Opposite {
		i ^= 1
	}
	return e.Sources[i], i
}

// Neighbor sends the blocks of src, at the positions of from, to the destinations, and receives blocks from the sources into dst,
// at the positions of to.
//
// Cost: a + m*b for each neighbor.
func Neighbor(p Peer, e *Edges, dst []byte, to Layout, src []byte, from Layout) error {
	hs := handles(p, len(e.Sources)+len(e.Destinations))
	for i := range e.Sources {
		rank, at := e.source(i)
		if b := to.block(dst, at); rank >= 0 && rank != p.Rank() && len(b) > 0 {
			h, err := p.Irecv(rank, b)
			if err != nil {
				return abandon(p, hs, err)
			}
			hs = append(hs, h)
		}
	}
	own := 0 // the next source that may be this rank
	for i, rank := range e.Destinations {
		b := from.block(src, i)
		switch {
		case rank < 0:
		case rank == p.Rank():
			for ; own < len(e.Sources); own++ {
				if source, at := e.source(own); source == rank {
					p.Copy(to.block(dst, at), b)
					own++
					break
				}
			}
		case len(b) > 0:
			h, err := p.Isend(rank, b)
			if err != nil {
				return abandon(p, hs, err)
			}
			hs = append(hs, h)
		}
	}
	return p.Waitall(hs)
}
