package core

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// A context number consists of, from the lowest bit: collectiveBit, which separates collectives from point-to-point
// messages; the communicator's id; and the generation of the id, which counts its uses. See proto.ContextBits.
const (
	collectiveBit = 1
	maxContextIDs = 1 << (proto.ContextBits - 1)
)

// Ids of communicators that are the same in all processes without an agreement.
const (
	worldID       = iota
	selfID        // carries no messages between processes
	groupCreateID // not a communicator: control messages of creation from groups
	initID        // temporary communicator of all processes at initialisation
	reservedIDs   // number of reserved ids
)

// finalizeContext is the context of another temporary communicator of all processes, for the barrier of Finalize. It is the next
// generation of the one at initialisation.
const finalizeContext = 1<<proto.ContextBits | initID<<1

var (
	errNoContextID   = errors.New("all context ids are in use: free some communicators")
	errOtherRank     = errors.New("it failed at another rank")
	errNegativeColor = errors.New("a color is not negative, or Undefined")
)

// contextIDs are the context ids that this process may use for new communicators.
type contextIDs struct {
	mu          sync.Mutex
	changed     sync.Cond                  // of mu: an offer or an agreement has ended
	unused      [maxContextIDs / 64]uint64 // bitmap by id
	generations [maxContextIDs]uint32      // by id
	waiting     map[uint64]int             // number of agreements in progress, by priority
	offered     bool                       // an agreement has offered the unused ids, and has not ended
}

func (s *contextIDs) init() {
	for i := range s.unused {
		s.unused[i] = ^uint64(0)
	}
	s.unused[0] &^= 1<<reservedIDs - 1
	s.waiting = map[uint64]int{}
	s.changed.L = &s.mu
}

// free makes the id of a context available again.
func (s *contextIDs) free(ctx uint32) {
	id := ctx & (1<<proto.ContextBits - 1) >> 1
	if id < reservedIDs {
		return
	}
	s.mu.Lock()
	s.unused[id/64] |= 1 << (id % 64)
	s.mu.Unlock()
}

// offer copies the unused ids to mask for the agreement with this priority. It reports false if another agreement
// must go first. Several goroutines may create communicators at the same time, in different orders at different
// ranks. The agreement with the lowest priority number goes first at every rank, so some agreement always succeeds.
func (s *contextIDs) offer(priority uint64, mask []uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isTurn(priority) {
		return false
	}
	s.offered = true
	copy(mask, s.unused[:])
	return true
}

// isTurn reports whether the agreement with this priority goes next at this rank. The caller must hold mu.
func (s *contextIDs) isTurn(priority uint64) bool {
	for other := range s.waiting {
		if other < priority {
			return false
		}
	}
	return !s.offered
}

// awaitTurn blocks until isTurn. The other agreements make progress in their own goroutines meanwhile.
func (s *contextIDs) awaitTurn(priority uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.isTurn(priority) {
		s.changed.Wait()
	}
}

// addWaiter adds n to the number of agreements in progress with this priority.
func (s *contextIDs) addWaiter(priority uint64, n int) {
	s.mu.Lock()
	if s.waiting[priority] += n; s.waiting[priority] == 0 {
		delete(s.waiting, priority)
		s.changed.Broadcast()
	}
	s.mu.Unlock()
}

// allocContextID agrees with all ranks on a context that none of them uses. Only ranks with keep will use it. The
// caller must know that all ranks are about to call it, which holds after a collective in which every rank waited for
// every other. Otherwise a rank that calls it early would block other ranks that must create other communicators
// first.
func (a *agreement) allocContextID(keep bool) (uint32, error) {
	s, priority := &a.comm.proc.contextIDs, uint64(a.comm.contextID)<<32|uint64(a.idupSeq)
	if a.creation != nil {
		priority = binary.NativeEndian.Uint64(a.creation.id[:])
	}
	s.addWaiter(priority, 1)
	defer s.addWaiter(priority, -1)
	const words = maxContextIDs / 64
	for {
		// The last word is 1 if all ranks offered their ids.
		var mine, all [words + 1]uint64
		offered := s.offer(priority, mine[:words])
		if offered {
			mine[words] = 1
		}
		err := a.allreduce(Bytes(all[:]), Bytes(mine[:]), datatype.Uint64, Band)
		if err == nil && all[words] == 1 {
			return a.commitContextID(all[:words], keep)
		}
		if offered {
			s.withdrawOffer()
		}
		if err == nil {
			err = a.awaitTurns(priority)
		}
		if err != nil {
			return 0, err
		}
	}
}

// awaitTurns blocks until it is this agreement's turn at each rank, or was a moment ago. A rank that offered its ids while
// another rank still waits could block the agreement for which that one waits.
func (a *agreement) awaitTurns(priority uint64) error {
	a.comm.proc.contextIDs.awaitTurn(priority)
	_, err := a.andBits(1)
	return err
}

// withdrawOffer ends an offer, so that another agreement can use the ids.
func (s *contextIDs) withdrawOffer() {
	s.mu.Lock()
	s.offered = false
	s.changed.Broadcast()
	s.mu.Unlock()
}

// commitContextID takes the lowest common id, in a generation that is new to all ranks.
func (a *agreement) commitContextID(common []uint64, keep bool) (uint32, error) {
	s := &a.comm.proc.contextIDs
	id := -1
	for i, w := range common {
		if w != 0 {
			id = i*64 + bits.TrailingZeros64(w)
			break
		}
	}
	if id < 0 {
		s.withdrawOffer()
		return 0, a.comm.newError(a.op, ErrOther, errNoContextID)
	}
	s.mu.Lock()
	generation := [1]uint32{s.generations[id] + 1}
	s.generations[id]++
	s.unused[id/64] &^= 1 << (id % 64)
	s.offered = false
	s.changed.Broadcast()
	s.mu.Unlock()
	number := uint32(id) << 1
	a.comm.engine.Contexts().Expect(number)
	a.comm.engine.Contexts().Expect(number | collectiveBit)
	var newest [1]uint32
	if err := a.allreduce(Bytes(newest[:]), Bytes(generation[:]), datatype.Uint32, Max); err != nil {
		return 0, err
	}
	ctx := newest[0]<<proto.ContextBits | number
	a.comm.engine.Contexts().Agreed(ctx, keep)
	a.comm.engine.Contexts().Agreed(ctx|collectiveBit, keep)
	s.mu.Lock()
	s.generations[id] = newest[0]
	s.mu.Unlock()
	if !keep {
		s.free(ctx)
	}
	return ctx, nil
}
