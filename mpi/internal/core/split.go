package core

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/perf"
)

// Split creates a communicator for each color, of the ranks that give it, ordered by key and then by rank in c.
func (c *Comm) Split(color, key int) (*Comm, error) {
	const call = perf.Split
	op := call.String()
	if err := c.CheckUsable(op); err != nil {
		return nil, err
	}
	if color < 0 && color != Undefined {
		// This rank takes part as if it gave Undefined, so that the other ranks do not block.
		_, err := c.Split(Undefined, key)
		if err == nil {
			err = c.newError(op, ErrArg, errNegativeColor)
		}
		return nil, err
	}
	defer c.proc.recordCall(call)()
	if err := c.checkCall(call); err != nil {
		return nil, err
	}
	all := make([]int, 2*len(c.peers))
	if err := c.allgather(call.Within(), Bytes(all), Bytes([]int{color, key}), KindOf[int]()); err != nil {
		return nil, err
	}
	colors, keys := make([]splitColor, len(c.peers)), make([]int, len(c.peers))
	for r := range c.peers {
		keys[r] = all[2*r+1]
		if color := all[2*r]; color != Undefined {
			colors[r] = splitColor{1, uint64(color)}
		}
	}
	return c.splitByColor(call, colors, keys)
}

// splitColor identifies a part of a split. It is comparable and has the same value at all ranks of the part. The zero
// splitColor means no part.
type splitColor [4]uint64

// newSplitColor returns the color for words that are the same for all ranks of a part, and for no other part.
func newSplitColor(words ...any) (s splitColor) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v", words))
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(sum[8*i:])
	}
	return s
}

// splitByColor creates a communicator of the ranks with this rank's color, ordered by key; nil for the zero color.
func (c *Comm) splitByColor(call perf.Op, colors []splitColor, keys []int) (*Comm, error) {
	mine := colors[c.rank]
	ctx, err := c.newAgreement(call).allocContextID(mine != splitColor{})
	if err != nil || mine == (splitColor{}) {
		return nil, err
	}
	var ranks []int
	for r, s := range colors {
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
