package core

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/clocksync"
	"github.com/ibrun/ibrun/mpi/internal/coll"
)

// Words of the clock information that every process sends: first the words of a leader's correction, then these. The epoch
// of rank 0 is used.
const (
	clockBound     = 4 // word of the correction
	clockRoundTrip = 5
	clockEpoch     = 6
	clockWords     = 7
)

// begin assigns the roles in clock synchronization and starts the clocks. g is all processes, and clocks has the source id
// of each.
func (k *clockSync) begin(g coll.Peer, clocks []uint64) error {
	self := g.Rank()
	k.leader = slices.Index(clocks, clocks[self])
	switch {
	case slices.Max(clocks) == slices.Min(clocks):
		return nil
	case self == 0:
		k.role = roleReference
		k.followers = othersWith(clocks, self)
	case k.leader == 0: // it has rank 0's source: roleNone
	case k.leader != self:
		k.role = roleFollower
	default:
		k.role = roleLeader
		k.followers = othersWith(clocks, self)
		if err := k.measureOffset(); err != nil {
			return err
		}
	}
	var mine [clockWords]uint64
	if k.role == roleLeader {
		b := k.fit.Correction(k.clock.Source().Now()).Encode()
		copy(mine[:], b[:])
		mine[clockRoundTrip] = uint64(k.fit.RoundTrip())
	}
	mine[clockEpoch] = uint64(k.clock.Now()) // rank 0's is used
	all := make([]uint64, len(clocks)*clockWords)
	if err := coll.Allgather(g, Bytes(all), Bytes(mine[:])); err != nil {
		return err
	}
	if k.role == roleLeader || k.role == roleFollower {
		b, ok := clocksync.DecodeCorrection([5]uint64(all[k.leader*clockWords:]))
		if !ok {
			return fmt.Errorf("%w: rank %d sent an invalid clock correction", fabric.ErrCorrupt, k.leader)
		}
		k.clock.Start(b)
		k.fit.Clock = &k.clock
	}
	k.epoch = int64(all[clockEpoch])
	var leaders []clockState
	for rank := range clocks {
		if x := all[rank*clockWords:][:clockWords]; x[clockRoundTrip] != 0 {
			leaders = append(leaders, clockState{rank, clocksync.DecodeBound(0, x[clockBound]), int64(x[clockRoundTrip])})
		}
	}
	k.startAgreement(self, leaders)
	// No leader may correct the clocks of others before all processes have started theirs.
	return coll.Barrier(g)
}

// othersWith returns the other ranks that have the same clock.
func othersWith(clocks []uint64, self int) (others []int) {
	for rank, id := range clocks {
		if id == clocks[self] && rank != self {
			others = append(others, rank)
		}
	}
	return others
}
