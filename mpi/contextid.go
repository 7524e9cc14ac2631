package mpi

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// A context number is one bit for messages or collectives, and above it the communicator's id. How often the id was
// used before is above that: see proto.ContextBits.
const (
	collectiveBit = 1
	maxContextIDs = 1 << (proto.ContextBits - 1)
)

// Communicators that all processes give the same id without asking each other.
const (
	worldID       = iota
	selfID        // no process sends to another by it
	groupCreateID // no communicator: messages of processes that make one from a group
	initID        // all processes, as they join
	reservedIDs   // ids
)

var (
	errNoContextID   = errors.New("all context ids are in use: free some communicators")
	errOtherRank     = errors.New("it failed at another rank")
	errNegativeColor = errors.New("a color is not negative, or Undefined")
)

// agreement is how the ranks of a communicator agree while they make or free one.
type agreement struct {
	comm *Comm
	call string
	op   perf.Op // what its messages are shown as
	// idup carries its messages if the caller does not wait, beside the collectives of the communicator. turn then
	// counts such meetings, from 1 and alike at all ranks.
	idup    *collState
	idupSeq uint32
	// creation carries its messages if the communicator is being made from groups. The others are nil then.
	creation *groupCreation
}

// newAgreement is a meeting of the ranks of c within a call.
func (c *Comm) newAgreement(call perf.Op) *agreement {
	return &agreement{comm: c, call: call.String(), op: call.Within()}
}

// allreduce is for operations that give the same if a rank's value enters twice.
func (m *agreement) allreduce(dst, src []byte, k datatype.Kind, o Predefined) error {
	f, commutative, _ := o.kernel(k)
	switch {
	case m.creation != nil:
		return m.comm.wrapError(m.call, m.creation.allreduce(dst, src, f))
	case m.idup == nil:
		return m.comm.allreduce(m.op, dst, src, k, o)
	}
	m.idup.scratchUsed = 0
	op := coll.Operation{Kernel: f, ElemSize: k.Size(), Commutative: commutative}
	return m.comm.wrapError(m.call, coll.Allreduce(m.idup, dst, src, &op))
}

// andBits is the bits that all ranks set.
func (m *agreement) andBits(bits uint8) (uint8, error) {
	mine, all := [1]uint8{bits}, [1]uint8{}
	err := m.allreduce(all[:], mine[:], datatype.Uint8, Band)
	return all[0], err
}

// agreeSuccess returns when all ranks have come, with the error of this one, or errElsewhere if only another has one.
func (m *agreement) agreeSuccess(mine error) error {
	fine := uint8(1)
	if mine != nil {
		fine = 0
	}
	all, err := m.andBits(fine)
	switch {
	case mine != nil:
		return m.comm.joinError(m.call, mine, err)
	case err == nil && all == 0:
		return m.comm.newError(m.call, ErrOther, errOtherRank)
	}
	return err
}

// contextIDs are the ids of communicators that this process may use.
type contextIDs struct {
	mu          sync.Mutex
	unused      [maxContextIDs / 64]uint64
	generations [maxContextIDs]uint32 // generation, by id
	waiting     map[uint64]int        // places of the meetings that make new communicators here
	offered     bool                  // some agreement has free in its hands
}

func (s *contextIDs) init() {
	for i := range s.unused {
		s.unused[i] = ^uint64(0)
	}
	s.unused[0] &^= 1<<reservedIDs - 1
	s.waiting = map[uint64]int{}
}

// free makes the id of a context free again.
func (s *contextIDs) free(ctx uint32) {
	id := ctx & (1<<proto.ContextBits - 1) >> 1
	if id < reservedIDs {
		return
	}
	s.mu.Lock()
	s.unused[id/64] |= 1 << (id % 64)
	s.mu.Unlock()
}

// offer offers the free ids to the meeting at a place, or none if another has them. Several goroutines may make
// communicators at once, in different orders at different ranks: the lowest place goes first everywhere, so some
// meeting always succeeds.
func (s *contextIDs) offer(place uint64, mask []uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.waiting {
		if other < place {
			return false
		}
	}
	if s.offered {
		return false
	}
	s.offered = true
	copy(mask, s.unused[:])
	return true
}

func (s *contextIDs) addWaiter(place uint64, n int) {
	s.mu.Lock()
	if s.waiting[place] += n; s.waiting[place] == 0 {
		delete(s.waiting, place)
	}
	s.mu.Unlock()
}

// allocContextID agrees with all ranks on a context that none of them uses. Only ranks with keep will use it. All ranks
// must be about to call it, as is known after a collective in which all waited for all: a rank that came early would
// have others wait that make other communicators first.
func (m *agreement) allocContextID(keep bool) (uint32, error) {
	s, place := &m.comm.proc.contextIDs, uint64(m.comm.contextID)<<32|uint64(m.idupSeq)
	if m.creation != nil {
		place = binary.NativeEndian.Uint64(m.creation.id[:])
	}
	s.addWaiter(place, 1)
	defer s.addWaiter(place, -1)
	const words = maxContextIDs / 64
	for {
		// The last word says whether all ranks offered their ids.
		var mine, all [words + 1]uint64
		held := s.offer(place, mine[:words])
		if held {
			mine[words] = 1
		}
		err := m.allreduce(bytesOf(all[:]), bytesOf(mine[:]), datatype.Uint64, Band)
		if err == nil && all[words] == 1 {
			return m.commitContextID(all[:words], keep)
		}
		if held {
			s.withdrawOffer()
		}
		if err != nil {
			return 0, err
		}
	}
}

func (s *contextIDs) withdrawOffer() {
	s.mu.Lock()
	s.offered = false
	s.mu.Unlock()
}

// commitContextID takes the lowest common id, in a generation that is new to all ranks.
func (m *agreement) commitContextID(common []uint64, keep bool) (uint32, error) {
	s := &m.comm.proc.contextIDs
	id := -1
	for i, w := range common {
		if w != 0 {
			id = i*64 + bits.TrailingZeros64(w)
			break
		}
	}
	if id < 0 {
		s.withdrawOffer()
		return 0, m.comm.newError(m.call, ErrOther, errNoContextID)
	}
	s.mu.Lock()
	generation := [1]uint32{s.generations[id] + 1}
	s.generations[id]++
	s.unused[id/64] &^= 1 << (id % 64)
	s.offered = false
	s.mu.Unlock()
	number := uint32(id) << 1
	m.comm.engine.ExpectContext(number)
	m.comm.engine.ExpectContext(number | collectiveBit)
	var newest [1]uint32
	if err := m.allreduce(bytesOf(newest[:]), bytesOf(generation[:]), datatype.Uint32, Max); err != nil {
		return 0, err
	}
	ctx := newest[0]<<proto.ContextBits | number
	m.comm.engine.ContextAgreed(ctx, keep)
	m.comm.engine.ContextAgreed(ctx|collectiveBit, keep)
	s.mu.Lock()
	s.generations[id] = newest[0]
	s.mu.Unlock()
	if !keep {
		s.free(ctx)
	}
	return ctx, nil
}
