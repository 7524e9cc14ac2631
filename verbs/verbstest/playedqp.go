//go:build unix

package verbstest

import (
	"slices"
	"syscall"

	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// playedQP is a queue pair of a network that is played.
type playedQP struct {
	num, peer uint32
	typ       verbs.QPType
	state     verbs.State
	cap       ib.Cap
	all       bool
	scq, rcq  *playedCQ
	own       playedReceives
	from      *playedReceives // own, or those of a shared queue
	sends     []ib.SendWR
	rung      int // of them, those that were rung for
}

func (q *playedQP) Num() uint32   { return q.num }
func (q *playedQP) Token() uint64 { return uint64(q.num) }
func (q *playedQP) Cap() ib.Cap   { return q.cap }

func (q *playedQP) AttachMulticast([16]byte, uint16) error { return syscall.EOPNOTSUPP }
func (q *playedQP) DetachMulticast([16]byte, uint16) error { return syscall.EOPNOTSUPP }

func (q *playedQP) Recv(id uint64, sge []ib.SGE) error { return q.own.Recv(id, sge) }

func (q *playedQP) Post(wr *ib.SendWR) error {
	q.own.n.mu.Lock()
	defer q.own.n.mu.Unlock()
	if len(q.sends) == int(q.cap.SendWR) {
		return ib.ErrFull
	}
	w := *wr
	w.SGE, w.Inline = slices.Clone(wr.SGE), slices.Clone(wr.Inline)
	const inline = 1 << 3 // IBV_SEND_INLINE
	if w.Flags&inline == 0 {
		w.Inline = nil // left from another request
	} else {
		w.SGE = nil
	}
	q.sends = append(q.sends, w)
	return nil
}

func (q *playedQP) Ring() error {
	q.own.n.mu.Lock()
	defer q.own.n.mu.Unlock()
	q.rung = len(q.sends)
	q.own.n.run()
	return nil
}

func (q *playedQP) Query(uint32) (ib.QPAttr, error) {
	q.own.n.mu.Lock()
	defer q.own.n.mu.Unlock()
	return ib.QPAttr{State: uint8(q.state), CurState: uint8(q.state), DestQPN: q.peer}, nil
}

func (q *playedQP) Modify(a *ib.QPAttr, mask uint32) error {
	q.own.n.mu.Lock()
	defer q.own.n.mu.Unlock()
	m := verbs.AttrMask(mask)
	if m&verbs.AttrDestQPN != 0 {
		q.peer = a.DestQPN
	}
	if m&verbs.AttrState != 0 {
		q.state = verbs.State(a.State)
	}
	switch q.state {
	case verbs.StateReset: // forgets all that is queued, which does not complete
		q.sends, q.rung, q.own.list = nil, 0, nil
	case verbs.StateErr:
		q.fail()
	}
	q.own.n.run()
	return nil
}

func (q *playedQP) Close() error {
	n := q.own.n
	n.mu.Lock()
	defer n.mu.Unlock()
	n.qps = slices.DeleteFunc(n.qps, func(o *playedQP) bool { return o == q })
	return nil
}

// fail has the pair be in the state of errors. What was rung for is flushed by step.
func (q *playedQP) fail() {
	q.state = verbs.StateErr
	for _, r := range q.own.list {
		q.rcq.put(ib.WC{ID: r.ID, Status: uint32(verbs.StatusFlushed), QPN: q.num})
	}
	q.own.list = nil
}

// step carries out the oldest request, if it can be.
func (q *playedQP) step() bool {
	if q.rung == 0 {
		return false
	}
	status, ok := verbs.StatusFlushed, true
	if q.state != verbs.StateErr {
		status, ok = q.try(&q.sends[0])
	}
	if !ok {
		return false
	}
	w := q.sends[0]
	q.sends = slices.Delete(q.sends, 0, 1)
	q.rung--
	if status != verbs.StatusSuccess || verbs.Flags(w.Flags)&verbs.Signaled != 0 || q.all {
		q.scq.put(ib.WC{ID: w.ID, Status: uint32(status), QPN: q.num})
	}
	if status != verbs.StatusSuccess && q.state != verbs.StateErr {
		q.fail()
	}
	return true
}

// try carries out a request, or says that it cannot be yet.
func (q *playedQP) try(w *ib.SendWR) (verbs.Status, bool) {
	n := q.own.n
	to := q.peer
	if q.typ == verbs.UD {
		if n.down {
			return verbs.StatusLocalQPOperation, true
		}
		if n.lose != nil && n.lose() {
			return verbs.StatusSuccess, true
		}
		to = w.QPN
	}
	i := slices.IndexFunc(n.qps, func(o *playedQP) bool { return o.num == to })
	there := q.state == verbs.StateRTS && i >= 0 && n.qps[i].typ == q.typ &&
		(n.qps[i].state == verbs.StateRTR || n.qps[i].state == verbs.StateRTS) && (q.typ == verbs.UD || n.qps[i].peer == q.num)
	if q.typ == verbs.UD {
		const route = 40 // bytes before a datagram
		if there {
			n.qps[i].take(append(make([]byte, route), n.gather(w)...))
		}
		return verbs.StatusSuccess, true
	}
	if !there || n.down {
		return 0, false
	}
	if verbs.Opcode(w.Opcode) == verbs.OpSend {
		return verbs.StatusSuccess, n.qps[i].take(n.gather(w))
	}
	b := n.gather(w)
	at := n.memory(w.RKey, w.Remote, len(b))
	switch {
	case len(b) == 0:
	case at == nil:
		n.qps[i].fail()
		return verbs.StatusRemoteAccess, true
	case verbs.Opcode(w.Opcode) == verbs.OpWrite:
		copy(at, b)
	default:
		n.scatter(w.SGE, at)
	}
	return verbs.StatusSuccess, true
}

// take puts a message into a receive, if there is one.
func (q *playedQP) take(b []byte) bool {
	if len(q.from.list) == 0 {
		return false
	}
	r := q.from.list[0]
	q.from.list = slices.Delete(q.from.list, 0, 1)
	q.own.n.scatter(r.SGE, b)
	q.rcq.put(ib.WC{ID: r.ID, QPN: q.num, Len: uint32(len(b))})
	return true
}

// gather is what a request sends. Memory that is not registered is the test's mistake.
func (n *Played) gather(w *ib.SendWR) []byte {
	b := slices.Clone(w.Inline)
	for _, e := range w.SGE {
		b = append(b, n.local(e)...)
	}
	return b
}

func (n *Played) scatter(to []ib.SGE, b []byte) {
	for _, e := range to {
		b = b[copy(n.local(e), b):]
	}
	if len(b) > 0 {
		panic("verbstest: a message is longer than its receive")
	}
}

func (n *Played) local(e ib.SGE) []byte {
	mem := n.memory(e.LKey, e.Addr, int(e.Len))
	if mem == nil {
		panic("verbstest: a request names memory that is not registered")
	}
	return mem
}
