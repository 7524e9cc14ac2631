package core

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Split creates a communicator for each color, of the ranks that give it, ordered by key and then
// by rank in c.
func Split(c *Comm, color, key int) (*Comm, error) {
	const call = perf.Split
	op := call.String()
	if err := c.checkUsable(op); err != nil {
		return nil, err
	}
	if color < 0 && color != Undefined {
		// This rank takes part as if it gave Undefined, so that the other ranks do not block.
		_, err := Split(c, Undefined, key)
		if err == nil {
			err = c.newError(op, ErrArg, errNegativeColor)
		}
		return nil, err
	}
	a, err := begin(c, call, nil)
	if err != nil {
		return nil, err
	}
	defer a.end()
	var mine splitColor
	if color != Undefined {
		mine = splitColor{1, uint64(color)}
	}
	colors, keys, err := a.exchangeColors(mine, key)
	if err != nil {
		return nil, err
	}
	return a.splitByColor(colors, keys)
}

// splitColor identifies a part of a split. It is comparable and has the same value at all ranks of
// the part. The zero splitColor means no part.
type splitColor [4]uint64

// newSplitColor returns the color for words that are the same for all ranks of a part, and for no
// other part.
func newSplitColor(words ...any) (s splitColor) {
	// A digest, so that words of any length fit in one color. Different words have the same one in
	// no practical case.
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v", words))
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(sum[8*i:])
	}
	return s
}

// exchangeColors returns the colors and keys of all ranks, in the order of the peers of
// collectives.
func (a *agreement) exchangeColors(color splitColor, key int) ([]splitColor, []int, error) {
	const words = len(splitColor{}) + 1
	all, err := a.gatherAll(append(color[:], uint64(key)))
	if err != nil {
		return nil, nil, err
	}
	var colors []splitColor
	var keys []int
	for r := range slices.Chunk(all, words) {
		colors, keys = append(colors, splitColor(r[:words-1])), append(keys, int(r[words-1]))
	}
	return colors, keys, nil
}

// gatherAll returns mine of all ranks at every rank, in the order of the peers of collectives.
func (a *agreement) gatherAll(mine []uint64) (all []uint64, err error) {
	c := a.comm
	all = make([]uint64, len(mine)*len(c.coll.main.peers))
	dst, src := Bytes(all), Bytes(mine)
	if c.localGroup == nil {
		return all, c.coll.Call(&Collective{Kind: perf.Allgather, as: a.recordAs, Dst: dst, Src: src,
			Elements: numbersOf[uint64]()})
	}
	// An Allgather of the program would give each group the data of the other one only. Here the
	// ranks of both groups are one list.
	if err := c.coll.beginCall(a.recordAs, len(src)); err != nil {
		return nil, err
	}
	defer c.coll.endCall()
	return all, c.wrapError(a.op, coll.Allgather(&c.coll.main, dst, src))
}

// splitByColor creates a communicator of the ranks with this rank's color, ordered by key. Colors
// and keys are those of the peers of collectives. The result is nil for the zero color; on an
// intercommunicator also if no rank of the other group has the color.
func (a *agreement) splitByColor(colors []splitColor, keys []int) (*Comm, error) {
	c := a.comm
	mine := colors[c.coll.main.rank]
	local, remote := c.coll.sides()
	members := func(s side) (peers []int32) {
		var ranks []int
		for r := s.first; r < s.first+s.n; r++ {
			if colors[r] == mine {
				ranks = append(ranks, r)
			}
		}
		slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
		for _, r := range ranks {
			peers = append(peers, c.coll.main.peers[r])
		}
		return peers
	}
	ours, others := members(local), members(remote)
	// A rank that gets nothing still takes part in the agreement: all ranks have to offer their
	// ids.
	keep := mine != splitColor{} && (c.localGroup == nil || len(others) > 0)
	ctx, err := a.allocContextID(keep)
	if err != nil || !keep {
		return nil, err
	}
	var d *Comm
	if c.localGroup == nil {
		d = newChild(c, ours, rankIn(ours, int32(c.proc.boot.Rank)))
	} else {
		d = newInterChild(c, ours, others)
	}
	d.activate(ctx)
	return d, nil
}
