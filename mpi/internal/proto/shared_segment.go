package proto

import (
	"cmp"
	"runtime"
	"sync/atomic"

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
	g := goal{watch: watch{what: segmentMapped, mapping: m, from: watched}}
	if len(peers) != 0 && peers[0] != e.links.self { // nothing wakes the first process, which at most waits for room
		e.waiters.await(&g)
	}
	for g.err == nil && !m.try() {
		if err := e.poller.pollOnce(); err != nil {
			return nil, err
		}
		e.waiters.watchIfDue(&g)
		if e.failure.departed && e.waiters.isHopeless(&g) {
			break
		}
		e.unlock()
		runtime.Gosched()
		processor.SchedYield()
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

// WaitAtLeast blocks until *w, in memory shared with other processes, has reached v; the comparison allows for wrap-around. It
// makes progress for messages meanwhile. While this process sleeps it is counted in *sleepers: a process that stores w must then
// load *sleepers, with a fence between the two if NeedsFence of the segment says so, and call WakePeer if that is not 0.
// Meanwhile the recorder shows watched.Op, of n bytes, as the current operation.
//
// WaitAtLeast fails when the process of watched has left its context before *w has reached v. So every process that leaves the
// context must store what others may wait for before it leaves.
func (e *Engine) WaitAtLeast(watched Route, n int, w *uint64, v uint64, sleepers *uint64) error {
	// The word has usually been reached when the other processes have run.
	if e.waiters.spin == spinOversubscribed && !e.waiters.paused() {
		for range quickYields {
			if int64(atomic.LoadUint64(w)-v) >= 0 {
				return nil
			}
			e.waiters.yieldToPeers()
		}
	}
	e.lock()
	defer e.unlock()
	if e.waiters.yieldTimer.Due() && !e.waiters.busy() {
		e.waiters.yield()
	}
	defer e.rec.Configured.Leave(e.rec.Enter(watched.Op, watched.Context, -1, -1, n))
	g := goal{watch: watch{what: wordReached, word: w, value: v, from: watched}, sleepers: sleepers}
	e.waiters.await(&g)
	if e.waiters.reached(&g) {
		return nil
	}
	return cmp.Or(e.failure.err, g.err)
}
