package verbstest

import (
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// completionTracker knows every request that was posted, and checks what completes: each request once, with its own number, on its own queue
// pair, in the order of its queue.
type completionTracker struct {
	lastID    uint64
	pending   map[uint64]*pendingRequest
	queues    map[queueID][]*pendingRequest
	completed map[uint64]verbs.WC
}

// pendingRequest is a request that has not completed.
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
	return &completionTracker{pending: map[uint64]*pendingRequest{}, queues: map[queueID][]*pendingRequest{}, completed: map[uint64]verbs.WC{}}
}

// nextID returns a number that no other request has, with something in all of its bytes.
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

// record enters a completion.
func (l *completionTracker) record(wc verbs.WC) error {
	e, ok := l.pending[wc.ID]
	switch {
	case !ok && l.isCompleted(wc.ID):
		return fmt.Errorf("request %#x has completed twice: %v and %v", wc.ID, l.completed[wc.ID].Status, wc.Status)
	case !ok:
		return fmt.Errorf("completion of request %#x on queue pair %#x, which nobody posted: %v", wc.ID, wc.QPN, wc.Status)
	case !e.shared && wc.QPN != e.queue.qpn:
		return fmt.Errorf("request %#x of queue pair %#x has completed on %#x", wc.ID, e.queue.qpn, wc.QPN)
	case wc.Status == verbs.StatusSuccess && e.unsignaled:
		return fmt.Errorf("request %#x has completed, and was not signaled", wc.ID)
	case wc.Status == verbs.StatusSuccess && wc.Opcode != e.op && !(wc.Opcode == verbs.WCRecvWriteImm && e.op == verbs.WCRecv):
		return fmt.Errorf("request %#x is a %v, and has completed as a %v", wc.ID, e.op, wc.Opcode)
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

// dequeue takes a request from its queue. Those before it have completed without saying so.
func (l *completionTracker) dequeue(e *pendingRequest) error {
	for i, before := range l.queues[e.queue] {
		if before == e {
			l.queues[e.queue] = l.queues[e.queue][i+1:]
			return nil
		}
		if !before.unsignaled {
			return fmt.Errorf("request %#x has completed before %#x, which was posted before it", e.id, before.id)
		}
		delete(l.pending, before.id)
	}
	return fmt.Errorf("request %#x is not in the ledger", e.id)
}

// drop forgets the requests of a queue that was closed or reset.
func (l *completionTracker) drop(at queueID) {
	for id, e := range l.pending {
		if e.queue == at {
			delete(l.pending, id)
		}
	}
	delete(l.queues, at)
}
