package mpi

import (
	"cmp"
	"slices"
)

// Split makes a communicator of the ranks that give the same color, ordered by key and then by rank here; it is nil
// for ranks that give Undefined. Other colors are not negative. It is collective. MPI-5.0 §7.4.2.
func (c *Comm) Split(color, key int) (*Comm, error) {
	const op = "Split"
	if err := c.usable(op); err != nil {
		return nil, err
	}
	if color < 0 && color != Undefined {
		// The others do not hang: this rank takes part as if it gave Undefined.
		_, err := c.Split(Undefined, key)
		if err == nil {
			err = c.err(op, ErrArg, errColor)
		}
		return nil, err
	}
	all := make([]int, 2*len(c.peers))
	if err := c.allgather(op, bytesOf(all), bytesOf([]int{color, key}), sizeOf[int]()); err != nil {
		return nil, err
	}
	ctx, err := (&meeting{c: c, op: op}).newContext(color != Undefined)
	if err != nil || color == Undefined {
		return nil, err
	}
	var ranks []int
	for r := range c.peers {
		if all[2*r] == color {
			ranks = append(ranks, r)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(all[2*a+1], all[2*b+1]) })
	peers := make([]int32, len(ranks))
	for i, r := range ranks {
		peers[i] = c.peers[r]
	}
	d := c.child(peers, slices.Index(ranks, int(c.rank)))
	d.open(ctx)
	return d, nil
}
