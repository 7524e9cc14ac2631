package verbstest

import (
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// ledger knows every request that was posted, and checks what completes: each request once, with its own number, on its own queue
// pair, in the order of its queue.
type ledger struct {
	ids   uint64
	open  map[uint64]*entry
	lines map[line][]*entry
	done  map[uint64]verbs.WC
}

// entry is a request that has not completed.
type entry struct {
	id     uint64
	line   line
	op     verbs.WCOpcode
	quiet  bool // makes no completion if it succeeds
	shared bool // may complete through any queue pair, in any order
}

// line is a queue in which requests complete in order.
type line struct {
	qpn  uint32 // or the number of the shared receive queue
	recv bool
}

func newLedger() *ledger {
	return &ledger{open: map[uint64]*entry{}, lines: map[line][]*entry{}, done: map[uint64]verbs.WC{}}
}

// id returns a number that no other request has, with something in all of its bytes.
func (l *ledger) id() uint64 {
	l.ids++
	return l.ids * 0x9e3779b97f4a7c15
}

func (l *ledger) add(e entry) {
	l.open[e.id] = &e
	if !e.shared {
		l.lines[e.line] = append(l.lines[e.line], &e)
	}
}

// take enters a completion.
func (l *ledger) take(wc verbs.WC) error {
	e, ok := l.open[wc.ID]
	switch {
	case !ok && l.has(wc.ID):
		return fmt.Errorf("request %#x has completed twice: %v and %v", wc.ID, l.done[wc.ID].Status, wc.Status)
	case !ok:
		return fmt.Errorf("completion of request %#x on queue pair %#x, which nobody posted: %v", wc.ID, wc.QPN, wc.Status)
	case !e.shared && wc.QPN != e.line.qpn:
		return fmt.Errorf("request %#x of queue pair %#x has completed on %#x", wc.ID, e.line.qpn, wc.QPN)
	case wc.Status == verbs.StatusSuccess && e.quiet:
		return fmt.Errorf("request %#x has completed, and was not signaled", wc.ID)
	case wc.Status == verbs.StatusSuccess && wc.Opcode != e.op && !(wc.Opcode == verbs.WCRecvWriteImm && e.op == verbs.WCRecv):
		return fmt.Errorf("request %#x is a %v, and has completed as a %v", wc.ID, e.op, wc.Opcode)
	}
	if !e.shared {
		if err := l.advance(e); err != nil {
			return err
		}
	}
	delete(l.open, e.id)
	l.done[e.id] = wc
	return nil
}

func (l *ledger) has(id uint64) bool { _, ok := l.done[id]; return ok }

// advance takes a request from its queue. Those before it have completed without saying so.
func (l *ledger) advance(e *entry) error {
	for i, before := range l.lines[e.line] {
		if before == e {
			l.lines[e.line] = l.lines[e.line][i+1:]
			return nil
		}
		if !before.quiet {
			return fmt.Errorf("request %#x has completed before %#x, which was posted before it", e.id, before.id)
		}
		delete(l.open, before.id)
	}
	return fmt.Errorf("request %#x is not in the ledger", e.id)
}

// drop forgets the requests of a queue that was closed or reset.
func (l *ledger) drop(at line) {
	for id, e := range l.open {
		if e.line == at {
			delete(l.open, id)
		}
	}
	delete(l.lines, at)
}
