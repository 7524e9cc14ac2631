// Package contextids numbers the communicators of a process. Its ranks agree on an id that all of
// them have unused: each offers its own, and they take the lowest of all. The package has one
// rank's part, without the messages.
//
// An id is used again when its communicator has been freed. Its generation counts the uses, so that
// a late message of an earlier communicator is not taken for one of the present.
//
// Several goroutines may create communicators at the same time, in different orders at different
// ranks. Each agreement has a priority, which is the same at all its ranks. The one with the lowest
// number goes first at every rank, so some agreement always succeeds.
package contextids

import (
	"math/bits"
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// maxIDs is the number of ids: a context number has a bit more, which separates collectives from
// other messages.
const maxIDs = 1 << (proto.ContextBits - 1)

// Words is the number of words in a set of ids.
const Words = maxIDs / 64

// IDs are the ids that a process may use for new communicators. Any goroutine may call the methods.
type IDs struct {
	reserved int // ids that are never given out, from 0

	mu          sync.Mutex
	changed     sync.Cond      // of mu: an offer or an agreement has ended
	unused      [Words]uint64  // bitmap by id
	generations [maxIDs]uint32 // by id
	waiting     map[uint64]int // number of agreements in progress, by priority
	offered     bool           // an agreement has offered the unused ids, and has not ended
}

// Init makes all ids unused but the reserved ones, which are fewer than 64.
func (s *IDs) Init(reserved int) {
	s.reserved = reserved
	for i := range s.unused {
		s.unused[i] = ^uint64(0)
	}
	s.unused[0] &^= 1<<reserved - 1
	s.waiting = map[uint64]int{}
	s.changed.L = &s.mu
}

// Begin begins an agreement with this priority. Several may have the same.
func (s *IDs) Begin(priority uint64) {
	s.mu.Lock()
	s.waiting[priority]++
	s.mu.Unlock()
}

// End ends an agreement that Begin has begun.
func (s *IDs) End(priority uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[priority]--; s.waiting[priority] == 0 {
		delete(s.waiting, priority)
		s.changed.Broadcast()
	}
}

// isTurn reports whether the agreement with this priority goes next at this rank. The caller must
// hold mu.
func (s *IDs) isTurn(priority uint64) bool {
	for other := range s.waiting {
		if other < priority {
			return false
		}
	}
	return !s.offered
}

// Await blocks until it is the turn of the agreement with this priority at this rank. The other
// agreements make progress in their own goroutines meanwhile.
func (s *IDs) Await(priority uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.isTurn(priority) {
		s.changed.Wait()
	}
}

// Offer copies the unused ids to a set for the agreement with this priority, until Take or
// Withdraw. It returns false if another agreement must go first.
func (s *IDs) Offer(priority uint64, set []uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isTurn(priority) {
		return false
	}
	s.offered = true
	copy(set, s.unused[:])
	return true
}

// Withdraw ends an offer, so that another agreement can use the ids.
func (s *IDs) Withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdraw()
}

// withdraw is Withdraw. The caller must hold mu.
func (s *IDs) withdraw() {
	s.offered = false
	s.changed.Broadcast()
}

// Take ends an offer and takes the lowest id of those that all ranks have offered, in a generation
// that is new to this rank. ok is false if there is none. The ranks then agree on the newest
// generation; see Settle.
func (s *IDs) Take(common []uint64) (id, generation uint32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.withdraw()
	for i, w := range common {
		if w != 0 {
			id = uint32(i*64 + bits.TrailingZeros64(w))
			s.unused[i] &^= w & -w
			s.generations[id]++
			return id, s.generations[id], true
		}
	}
	return 0, 0, false
}

// Settle sets the generation of an id to the newest of all ranks.
func (s *IDs) Settle(id, generation uint32) {
	s.mu.Lock()
	s.generations[id] = generation
	s.mu.Unlock()
}

// Free makes an id unused again, unless it is reserved.
func (s *IDs) Free(id uint32) {
	if int(id) < s.reserved {
		return
	}
	s.mu.Lock()
	s.unused[id/64] |= 1 << (id % 64)
	s.mu.Unlock()
}
