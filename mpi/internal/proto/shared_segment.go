package proto

import (
	"runtime"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/processor"
)

// CanShareMemory reports whether processes may share memory.
func (e *Engine) CanShareMemory() bool { return e.sharedMemory != nil }

// MapSegment maps memory shared with peers, as [fabric.SharedMemory] does. It blocks until the segment exists, or until the
// process of watched has left its context; see WaitAtLeast. watched.Op is recorded.
func (e *Engine) MapSegment(watched Route, id uint64, peers []int, bytes int) (fabric.Segment, error) {
	e.lock()
	defer e.unlock()
	defer e.rec.Configured.Leave(e.rec.Enter(watched.Op, watched.Context, -1, -1, bytes))
	m := &mapping{sharedMemory: e.sharedMemory, id: id, peers: peers, bytes: bytes}
	g := goal{what: segmentMapped, mapping: m, from: watched}
	if len(peers) != 0 && peers[0] != e.links.self { // nothing wakes the first process, which at most waits for room
		e.await(&g)
	}
	for g.err == nil && !m.try() {
		if err := e.pollOnce(); err != nil {
			return nil, err
		}
		e.watchIfDue(&g)
		if e.failure.departed && e.isHopeless(&g) {
			break
		}
		e.unlock()
		runtime.Gosched()
		processor.Yield()
		e.lock()
	}
	if g.err != nil {
		return nil, g.err
	}
	return m.seg, m.err
}

// mapping is a segment that a goroutine waits for.
type mapping struct {
	sharedMemory fabric.SharedMemory
	id           uint64
	peers        []int
	bytes        int
	done         bool // seg and err are the result
	seg          fabric.Segment
	err          error
}

// try tries to map the segment, unless that is done, and reports whether it is done.
func (m *mapping) try() bool {
	if !m.done {
		m.seg, m.err = m.sharedMemory.Segment(m.id, m.peers, m.bytes)
		m.done = m.err != fabric.ErrAgain
	}
	return m.done
}

// WakePeer wakes a process that may wait for a word of a segment.
func (e *Engine) WakePeer(n int) {
	e.lock()
	e.sharedMemory.Wake(n)
	e.unlock()
}

// WakePeerInStep is WakePeer for a Program's Do of a StepPoll, which is called with the lock held.
func (e *Engine) WakePeerInStep(n int) { e.sharedMemory.Wake(n) }
