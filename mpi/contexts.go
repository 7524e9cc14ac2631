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
	collective = 1
	maxIDs     = 1 << (proto.ContextBits - 1)
)

// Communicators that all processes give the same id without asking each other.
const (
	worldID    = iota
	selfID     // no process sends to another by it
	foundingID // no communicator: messages of processes that make one from a group
	meetingID  // all processes, as they join
	reserved   // ids
)

var (
	errTooMany   = errors.New("all context ids are in use: free some communicators")
	errElsewhere = errors.New("it failed at another rank")
	errColor     = errors.New("a color is not negative, or Undefined")
)

// meeting is how the ranks of a communicator agree while they make or free one.
type meeting struct {
	c  *Comm
	op string
	as perf.Op // what its messages are shown as
	// aside carries its messages if the caller does not wait, beside the collectives of the communicator. turn then
	// counts such meetings, from 1 and alike at all ranks.
	aside *group
	turn  uint32
	// founding carries its messages if the communicator is being made from groups. The others are nil then.
	founding *founding
}

// meet is a meeting of the ranks of c within a call.
func (c *Comm) meet(call perf.Op) *meeting {
	return &meeting{c: c, op: call.String(), as: call.Within()}
}

// allreduce is for operations that give the same if a rank's value enters twice.
func (m *meeting) allreduce(dst, src []byte, k datatype.Kind, o Predefined) error {
	f, commutative, _ := o.kernel(k)
	switch {
	case m.founding != nil:
		return m.c.below(m.op, m.founding.combine(dst, src, f))
	case m.aside == nil:
		return m.c.allreduce(m.as, dst, src, k, o)
	}
	m.aside.used = 0
	op := coll.Operation{Kernel: f, ElemSize: k.Size(), Commutative: commutative}
	return m.c.below(m.op, coll.Allreduce(m.aside, dst, src, &op))
}

// band is the bits that all ranks set.
func (m *meeting) band(bits uint8) (uint8, error) {
	mine, all := [1]uint8{bits}, [1]uint8{}
	err := m.allreduce(all[:], mine[:], datatype.Uint8, Band)
	return all[0], err
}

// agree returns when all ranks have come, with the error of this one, or errElsewhere if only another has one.
func (m *meeting) agree(mine error) error {
	fine := uint8(1)
	if mine != nil {
		fine = 0
	}
	all, err := m.band(fine)
	switch {
	case mine != nil:
		return m.c.also(m.op, mine, err)
	case err == nil && all == 0:
		return m.c.err(m.op, ErrOther, errElsewhere)
	}
	return err
}

// contexts are the ids of communicators that this process may use.
type contexts struct {
	mu      sync.Mutex
	free    [maxIDs / 64]uint64
	used    [maxIDs]uint32 // generation, by id
	waiting map[uint64]int // places of the meetings that make new communicators here
	held    bool           // some agreement has free in its hands
}

func (s *contexts) init() {
	for i := range s.free {
		s.free[i] = ^uint64(0)
	}
	s.free[0] &^= 1<<reserved - 1
	s.waiting = map[uint64]int{}
}

// give makes the id of a context free again.
func (s *contexts) give(ctx uint32) {
	id := ctx & (1<<proto.ContextBits - 1) >> 1
	if id < reserved {
		return
	}
	s.mu.Lock()
	s.free[id/64] |= 1 << (id % 64)
	s.mu.Unlock()
}

// claim offers the free ids to the meeting at a place, or none if another has them. Several goroutines may make
// communicators at once, in different orders at different ranks: the lowest place goes first everywhere, so some
// meeting always succeeds.
func (s *contexts) claim(place uint64, mask []uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.waiting {
		if other < place {
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

func (s *contexts) enter(place uint64, n int) {
	s.mu.Lock()
	if s.waiting[place] += n; s.waiting[place] == 0 {
		delete(s.waiting, place)
	}
	s.mu.Unlock()
}

// newContext agrees with all ranks on a context that none of them uses. Only ranks with keep will use it. All ranks
// must be about to call it, as is known after a collective in which all waited for all: a rank that came early would
// have others wait that make other communicators first.
func (m *meeting) newContext(keep bool) (uint32, error) {
	s, place := &m.c.p.ids, uint64(m.c.ctx)<<32|uint64(m.turn)
	if m.founding != nil {
		place = binary.NativeEndian.Uint64(m.founding.about[:])
	}
	s.enter(place, 1)
	defer s.enter(place, -1)
	const words = maxIDs / 64
	for {
		// The last word says whether all ranks offered their ids.
		var mine, all [words + 1]uint64
		held := s.claim(place, mine[:words])
		if held {
			mine[words] = 1
		}
		err := m.allreduce(bytesOf(all[:]), bytesOf(mine[:]), datatype.Uint64, Band)
		if err == nil && all[words] == 1 {
			return m.settleContext(all[:words], keep)
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
func (m *meeting) settleContext(common []uint64, keep bool) (uint32, error) {
	s := &m.c.p.ids
	id := -1
	for i, w := range common {
		if w != 0 {
			id = i*64 + bits.TrailingZeros64(w)
			break
		}
	}
	if id < 0 {
		s.release()
		return 0, m.c.err(m.op, ErrOther, errTooMany)
	}
	s.mu.Lock()
	generation := [1]uint32{s.used[id] + 1}
	s.used[id]++
	s.free[id/64] &^= 1 << (id % 64)
	s.held = false
	s.mu.Unlock()
	number := uint32(id) << 1
	m.c.e.ExpectContext(number)
	m.c.e.ExpectContext(number | collective)
	var newest [1]uint32
	if err := m.allreduce(bytesOf(newest[:]), bytesOf(generation[:]), datatype.Uint32, Max); err != nil {
		return 0, err
	}
	ctx := newest[0]<<proto.ContextBits | number
	m.c.e.ContextAgreed(ctx, keep)
	m.c.e.ContextAgreed(ctx|collective, keep)
	s.mu.Lock()
	s.used[id] = newest[0]
	s.mu.Unlock()
	if !keep {
		s.give(ctx)
	}
	return ctx, nil
}
