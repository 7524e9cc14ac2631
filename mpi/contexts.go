package mpi

import (
	"errors"
	"math/bits"
	"sync"

	"github.com/ibrun/ibrun/mpi/internal/dtype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// A context number is one bit for messages or collectives, and above it the communicator's id. How often the id was
// used before is above that: see proto.ContextBits.
const (
	collective = 1
	maxIDs     = 1 << (proto.ContextBits - 1)
	worldID    = 0
	selfID     = 1
)

var (
	errTooMany = errors.New("all context ids are in use: free some communicators")
	errColor   = errors.New("a color is not negative, or Undefined")
)

// contexts are the ids of communicators that this process may use.
type contexts struct {
	mu      sync.Mutex
	free    [maxIDs / 64]uint64
	used    [maxIDs]uint32 // generation, by id
	waiting map[uint32]int // contexts of the communicators from which new ones are being made here
	held    bool           // some agreement has free in its hands
}

func (s *contexts) init() {
	for i := range s.free {
		s.free[i] = ^uint64(0)
	}
	s.waiting = map[uint32]int{}
}

// fixed takes an id that all processes give to the same communicator without asking each other.
func (s *contexts) fixed(id int) uint32 {
	s.free[id/64] &^= 1 << (id % 64)
	return uint32(id) << 1
}

// give makes the id of a context free again.
func (s *contexts) give(ctx uint32) {
	s.mu.Lock()
	id := ctx & (1<<proto.ContextBits - 1) >> 1
	s.free[id/64] |= 1 << (id % 64)
	s.mu.Unlock()
}

// claim offers the free ids to an agreement among the ranks of the communicator with context ctx, or none if
// another agreement has them. Several goroutines may make communicators at once, in different orders at different
// ranks: the lowest context goes first everywhere, so some agreement always succeeds.
func (s *contexts) claim(ctx uint32, mask []uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.waiting {
		if other < ctx {
			return false
		}
	}
	if s.held {
		return false
	}
	s.held = true
	copy(mask, s.free[:])
	return true
}

func (s *contexts) enter(ctx uint32, n int) {
	s.mu.Lock()
	if s.waiting[ctx] += n; s.waiting[ctx] == 0 {
		delete(s.waiting, ctx)
	}
	s.mu.Unlock()
}

// newContext agrees with all ranks of c on a context that none of them uses. Only ranks with keep will use it. All
// ranks must be about to call it, as is known after a collective in which all waited for all: a rank that came
// early would have others wait that make other communicators first.
func (c *Comm) newContext(op string, keep bool) (uint32, error) {
	s := &c.p.ids
	s.enter(c.ctx, 1)
	defer s.enter(c.ctx, -1)
	const words = maxIDs / 64
	for {
		// The last word says whether all ranks offered their ids.
		var mine, all [words + 1]uint64
		held := s.claim(c.ctx, mine[:words])
		if held {
			mine[words] = 1
		}
		err := c.allreduce(op, bytesOf(all[:]), bytesOf(mine[:]), dtype.Uint64, Band)
		if err == nil && all[words] == 1 {
			return c.settleContext(op, all[:words], keep)
		}
		if held {
			s.release()
		}
		if err != nil {
			return 0, err
		}
	}
}

func (s *contexts) release() {
	s.mu.Lock()
	s.held = false
	s.mu.Unlock()
}

// settleContext takes the lowest common id, in a generation that is new to all ranks.
func (c *Comm) settleContext(op string, common []uint64, keep bool) (uint32, error) {
	s := &c.p.ids
	id := -1
	for i, w := range common {
		if w != 0 {
			id = i*64 + bits.TrailingZeros64(w)
			break
		}
	}
	if id < 0 {
		s.release()
		return 0, c.err(op, ErrOther, errTooMany)
	}
	s.mu.Lock()
	generation := [1]uint32{s.used[id] + 1}
	s.used[id]++
	s.free[id/64] &^= 1 << (id % 64)
	s.held = false
	s.mu.Unlock()
	var newest [1]uint32
	if err := c.allreduce(op, bytesOf(newest[:]), bytesOf(generation[:]), dtype.Uint32, Max); err != nil {
		return 0, err
	}
	ctx := newest[0]<<proto.ContextBits | uint32(id)<<1
	s.mu.Lock()
	s.used[id] = newest[0]
	s.mu.Unlock()
	if !keep {
		s.give(ctx)
	}
	return ctx, nil
}
