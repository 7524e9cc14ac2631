package coll

// ShmImmediates do the immediate collectives of a communicator over shared memory.
//
// If all ranks share memory, there is one ShmImmediate. If the ranks are on several nodes, those of each node share memory, and a
// collective has up to two phases there: before and after the messages between the nodes. Each phase has a ShmImmediate of its
// own. A ShmImmediate ends its calls in their order: with a common one, a later collective could not begin while an earlier one
// waits for other nodes.
//
// All calls end in time, as those of a ShmImmediate do: each step of a collective waits only for earlier steps of it, and for
// steps of earlier collectives.
type ShmImmediates [phases]*ShmImmediate

// The phases of a collective on two levels within a node.
const (
	fanIn  = iota // the leader gets data from the other ranks, or each rank a part
	fanOut        // the other ranks get data from the leader, or parts from each rank
	phases
)

// phaseOf returns the phase of a collective within a node.
func phaseOf(c Collective) int {
	if c == OfBcast || c == OfAllgather {
		return fanOut
	}
	return fanIn
}

// ShmImmediatesBytes returns the bytes of memory of a ShmImmediates, whose ranks are all ranks of a communicator, or those of one
// of several nodes.
func ShmImmediatesBytes(ranks int, severalNodes bool) (words, data int) {
	words, data = ShmImmediateBytes(ranks)
	if severalNodes {
		return phases * words, phases * data
	}
	return words, data
}

// NewShmImmediates returns a ShmImmediates. The other argument is as in [ShmImmediatesBytes]. On several nodes the table is not
// used: its rules are for whole collectives, and not for a phase.
func NewShmImmediates(c ShmImmediateConfig, severalNodes bool) (*ShmImmediates, error) {
	all := new(ShmImmediates)
	if severalNodes {
		c.Table = nil
	}
	words, data := ShmImmediateBytes(c.Size)
	for i := range all {
		f, err := NewShmImmediate(c)
		if err != nil {
			return nil, err
		}
		if all[i] = f; !severalNodes {
			break
		}
		c.Words, c.Data = c.Words[words:], c.Data[data:]
	}
	return all, nil
}

// ReadDirectly is [ShmImmediate.ReadDirectly] for all of them.
func (s *ShmImmediates) ReadDirectly(m RemoteMemory, processes []uint64) {
	for _, f := range s {
		if f != nil {
			f.ReadDirectly(m, processes)
		}
	}
}
