package mpi

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/perf"
)

// Split makes a communicator of the ranks that give the same color, ordered by key and then by rank here; it is nil
// for ranks that give Undefined. Other colors are not negative. It is collective. MPI-5.0 §7.4.2.
func (c *Comm) Split(color, key int) (*Comm, error) {
	const call = perf.Split
	op := call.String()
	if err := c.checkUsable(op); err != nil {
		return nil, err
	}
	if color < 0 && color != Undefined {
		// The others do not hang: this rank takes part as if it gave Undefined.
		_, err := c.Split(Undefined, key)
		if err == nil {
			err = c.newError(op, ErrArg, errNegativeColor)
		}
		return nil, err
	}
	defer c.proc.recordCall(call)()
	all := make([]int, 2*len(c.peers))
	if err := c.allgather(call.Within(), bytesOf(all), bytesOf([]int{color, key}), sizeOf[int]()); err != nil {
		return nil, err
	}
	sides, keys := make([]splitColor, len(c.peers)), make([]int, len(c.peers))
	for r := range c.peers {
		keys[r] = all[2*r+1]
		if color := all[2*r]; color != Undefined {
			sides[r] = splitColor{1, uint64(color)}
		}
	}
	return c.splitByColor(call, sides, keys)
}

// splitColor tells which part of a split a rank goes to, in a form that parts of all ranks can be compared by. The zero side is
// none.
type splitColor [4]uint64

// newSplitColor makes a side of what is the same for all ranks of a part, and for no other part.
func newSplitColor(words ...any) (s splitColor) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v", words))
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(sum[8*i:])
	}
	return s
}

// splitByColor makes a communicator of the ranks on the side of this one, ordered by key; nil for no side.
func (c *Comm) splitByColor(call perf.Op, sides []splitColor, keys []int) (*Comm, error) {
	mine := sides[c.rank]
	ctx, err := c.newAgreement(call).allocContextID(mine != splitColor{})
	if err != nil || mine == (splitColor{}) {
		return nil, err
	}
	var ranks []int
	for r, s := range sides {
		if s == mine {
			ranks = append(ranks, r)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	peers := make([]int32, len(ranks))
	for i, r := range ranks {
		peers[i] = c.peers[r]
	}
	d := c.newChild(peers, slices.Index(ranks, int(c.rank)))
	d.activate(ctx)
	return d, nil
}
