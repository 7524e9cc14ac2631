package clocks

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/clocksync"
	"github.com/ibrun/ibrun/mpi/internal/coll"
)

// Words of the clock information that every process sends: first the words of a leader's
// correction, then these. The epoch of rank 0 is used.
const (
	clockBound     = 4 // word of the correction
	clockRoundTrip = 5
	clockEpoch     = 6
	clockWords     = 7
)

// Begin assigns the roles in clock synchronization and starts the clocks. g is all processes, and
// sources has the id of the source of each. sameKernel says that rank 0 has the same kernel, so
// that the two clocks differ by a constant.
func (k *Sync) Begin(g coll.Peer, sources []uint64, sameKernel bool) error {
	k.fit.SameKernel = sameKernel
	self := g.Rank()
	k.leader = slices.Index(sources, sources[self])
	switch {
	case slices.Max(sources) == slices.Min(sources):
		return nil
	case self == 0:
		k.role = roleReference
		k.followers = othersWith(sources, self)
	case k.leader == 0: // it has rank 0's source: roleNone
	case k.leader != self:
		k.role = roleFollower
	default:
		k.role = roleLeader
		k.followers = othersWith(sources, self)
		if err := k.measureOffset(); err != nil {
			return err
		}
	}
	var mine [clockWords]uint64
	if k.role == roleLeader {
		b := k.fit.Correction(k.Clock.Source().Now()).Encode()
		copy(mine[:], b[:])
		mine[clockRoundTrip] = uint64(k.fit.RoundTrip())
	}
	mine[clockEpoch] = uint64(k.Clock.Now()) // rank 0's is used
	all, err := gatherWords(g, mine[:])
	if err != nil {
		return err
	}
	if k.role == roleLeader || k.role == roleFollower {
		b, ok := clocksync.DecodeCorrection([5]uint64(all[k.leader*clockWords:]))
		if !ok {
			return fmt.Errorf("%w: rank %d sent an invalid clock correction", fabric.ErrCorrupt, k.leader)
		}
		k.Clock.Start(b)
		k.fit.Clock = &k.Clock
	}
	k.epoch = int64(all[clockEpoch])
	var leaders []leaderState
	for rank := range sources {
		if x := all[rank*clockWords:][:clockWords]; x[clockRoundTrip] != 0 {
			leaders = append(leaders, leaderState{rank, clocksync.DecodeBound(0, x[clockBound]), int64(x[clockRoundTrip])})
		}
	}
	k.startAgreement(self, leaders)
	// No leader may correct the clocks of others before all processes have started theirs.
	return coll.Barrier(g)
}

// gatherWords returns the words of all processes.
func gatherWords(g coll.Peer, mine []uint64) (all []uint64, err error) {
	sent := make([]byte, 0, 8*len(mine))
	for _, x := range mine {
		sent = binary.NativeEndian.AppendUint64(sent, x)
	}
	got := make([]byte, g.Size()*len(sent))
	if err := coll.Allgather(g, got, sent); err != nil {
		return nil, err
	}
	for b := range slices.Chunk(got, 8) {
		all = append(all, binary.NativeEndian.Uint64(b))
	}
	return all, nil
}

// othersWith returns the other ranks that have the same source.
func othersWith(sources []uint64, self int) (others []int) {
	for rank, id := range sources {
		if id == sources[self] && rank != self {
			others = append(others, rank)
		}
	}
	return others
}
