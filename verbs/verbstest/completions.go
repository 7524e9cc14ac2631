package verbstest

import (
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// completionTracker has every posted request. It checks that each request completes once, with its own number, on its own
// queue pair, and in the order of its queue.
type completionTracker struct {
	lastID    uint64
	pending   map[uint64]*pendingRequest
	queues    map[queueID][]*pendingRequest
	completed map[uint64]verbs.WC
}

// pendingRequest is a request that has not completed yet.
type pendingRequest struct {
	id         uint64
	queue      queueID
	op         verbs.WCOpcode
	unsignaled bool // makes no completion if it succeeds
	shared     bool // may complete through any queue pair, in any order
}

// queueID is a queue in which requests complete in order.
type queueID struct {
	qpn  uint32 // or the number of the shared receive queue
	recv bool
}

func newCompletionTracker() *completionTracker {
	return &completionTracker{pending: map[uint64]*pendingRequest{}, queues: map[queueID][]*pendingRequest{},
		completed: map[uint64]verbs.WC{}}
}

// nextID returns a request number that no other request has. It uses all eight bytes of the number.
func (l *completionTracker) nextID() uint64 {
	l.lastID++
	return l.lastID * 0x9e3779b97f4a7c15
}

func (l *completionTracker) add(e pendingRequest) {
	l.pending[e.id] = &e
	if !e.shared {
		l.queues[e.queue] = append(l.queues[e.queue], &e)
	}
}

// record removes the request of a completion from those that are pending, and checks the completion.
func (l *completionTracker) record(wc verbs.WC) error {
	e, ok := l.pending[wc.ID]
	switch {
	case !ok && l.isCompleted(wc.ID):
		return fmt.Errorf("request %#x completed twice: %v and %v", wc.ID, l.completed[wc.ID].Status, wc.Status)
	case !ok:
		return fmt.Errorf("completion of request %#x on queue pair %#x, which was not posted: %v", wc.ID, wc.QPN, wc.Status)
	case !e.shared && wc.QPN != e.queue.qpn:
		return fmt.Errorf("request %#x of queue pair %#x completed on %#x", wc.ID, e.queue.qpn, wc.QPN)
	case wc.Status == verbs.StatusSuccess && e.unsignaled:
		return fmt.Errorf("request %#x completed, but was not signaled", wc.ID)
	case wc.Status == verbs.StatusSuccess && wc.Opcode != e.op && !(wc.Opcode == verbs.WCRecvWriteImm && e.op == verbs.WCRecv):
		return fmt.Errorf("request %#x is a %v, but completed as a %v", wc.ID, e.op, wc.Opcode)
	}
	if !e.shared {
		if err := l.dequeue(e); err != nil {
			return err
		}
	}
	delete(l.pending, e.id)
	l.completed[e.id] = wc
	return nil
}

func (l *completionTracker) isCompleted(id uint64) bool { _, ok := l.completed[id]; return ok }

// dequeue removes a request and all requests before it from their queue. Those before it were unsignaled and have completed too.
func (l *completionTracker) dequeue(e *pendingRequest) error {
	for i, before := range l.queues[e.queue] {
		if before == e {
			l.queues[e.queue] = l.queues[e.queue][i+1:]
			return nil
		}
		if !before.unsignaled {
			return fmt.Errorf("request %#x completed before %#x, which was posted earlier", e.id, before.id)
		}
		delete(l.pending, before.id)
	}
	return fmt.Errorf("request %#x is not in its queue", e.id)
}

// drop removes the requests of a queue that was closed or reset.
func (l *completionTracker) drop(at queueID) {
	for id, e := range l.pending {
		if e.queue == at {
			delete(l.pending, id)
		}
	}
	delete(l.queues, at)
}
