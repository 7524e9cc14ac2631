package proto

import (
	"cmp"
	"runtime"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/processor"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
)

// Segments are memory that the engine shares with other processes.
type Segments struct {
	mu      *lock.Mutex // of the engine
	rec     *record.Recording
	waiters *waiters
	poller  *poller
	links   *links
	domain  fabric.SharedMemory // nil if the domain cannot share memory
}

// Segments returns what shares memory for the engine.
func (e *Engine) Segments() *Segments { return &e.segments }

// Available reports whether processes may share memory.
func (s *Segments) Available() bool { return s.domain != nil }

// Map maps memory shared with peers, as [fabric.SharedMemory] does. It blocks until the segment
// exists, or until the process of watched has left its context; see WaitAtLeast. watched.Op is
// recorded.
func (s *Segments) Map(watched Route, id uint64, peers []int, bytes int) (fabric.Segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.rec.Configured.Leave(s.rec.Enter(watched.Op, watched.Context, -1, -1, bytes))
	m := &mapping{sharedMemory: s.domain, id: id, peers: peers, bytes: bytes}
	g := goal{watch: watch{what: segmentMapped, mapping: m, from: watched}}
	// The first process, which creates the memory, does not sleep here: nothing would wake it.
	if len(peers) != 0 && peers[0] != s.links.self {
		s.waiters.await(&g)
	}
	for g.err == nil && !m.try() {
		if err := s.poller.pollOnce(); err != nil {
			return nil, err
		}
		s.waiters.watchIfDue(&g)
		if s.waiters.failure.departed && s.waiters.isHopeless(&g) {
			break
		}
		s.mu.Unlock()
		runtime.Gosched()
		processor.SchedYield()
		s.mu.Lock()
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

// Wake wakes a process that may wait for a word of a segment.
func (s *Segments) Wake(n int) {
	s.mu.Lock()
	s.domain.Wake(n)
	s.mu.Unlock()
}

// WakeInStep is Wake for a Program's Do of a StepPoll, which is called with the lock held.
func (s *Segments) WakeInStep(n int) { s.domain.Wake(n) }

// WaitAtLeast blocks until *w, in memory shared with other processes, has reached v; the comparison
// allows for wrap-around. It makes progress for messages meanwhile. While this process sleeps it is
// counted in *sleepers. A process that stores w must then load *sleepers, with a fence between the
// two if NeedsFence of the segment says so. If *sleepers is not 0 it must call Wake. Meanwhile the
// recorder shows watched.Op, of n bytes, as the current operation.
//
// WaitAtLeast fails when the process of watched has left its context before *w has reached v. So
// every process that leaves the context must store what others may wait for before it leaves.
func (s *Segments) WaitAtLeast(watched Route, n int, w *uint64, v uint64, sleepers *uint64) error {
	// The word has usually been reached when the other processes have run.
	if s.waiters.spin == spinOversubscribed && !s.waiters.paused() {
		for range quickYields {
			if int64(atomic.LoadUint64(w)-v) >= 0 {
				return nil
			}
			s.waiters.yieldToPeers()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiters.yieldTimer.Due() && !s.waiters.busy() {
		s.waiters.yield()
	}
	defer s.rec.Configured.Leave(s.rec.Enter(watched.Op, watched.Context, -1, -1, n))
	g := goal{watch: watch{what: wordReached, word: w, value: v, from: watched}, sleepers: sleepers}
	s.waiters.await(&g)
	if s.waiters.reached(&g) {
		return nil
	}
	return cmp.Or(s.waiters.failure.err, g.err)
}
