//go:build unix

package verbstest

import (
	"slices"
	"syscall"

	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// simQP is a queue pair of a simulated network.
type simQP struct {
	dev            *simDevice
	path           simPath // of a connection
	pkeyIndex      uint16
	mtu            uint8
	num, peer      uint32
	reads, serves  uint8 // READs that it may have in flight, and that it serves at the same time
	typ            verbs.QPType
	state          verbs.State
	cap            ib.Cap
	signalAll      bool
	sendCQ, recvCQ *simCQ
	ownRecvs       simRecvQueue
	recvs          *simRecvQueue // ownRecvs, or the shared receive queue
	sends          []ib.SendWR
	submitted      int  // number of sends before the last doorbell
	srq            bool // recvs is shared
	connected      bool // was in the state RTR
	lastWQE        bool // EventLastWQE was raised
}

func (q *simQP) Num() uint32   { return q.num }
func (q *simQP) Token() uint64 { return uint64(q.num) }
func (q *simQP) Cap() ib.Cap   { return q.cap }

func (q *simQP) AttachMulticast([16]byte, uint16) error { return syscall.EOPNOTSUPP }
func (q *simQP) DetachMulticast([16]byte, uint16) error { return syscall.EOPNOTSUPP }

func (q *simQP) Recv(id uint64, sge []ib.SGE) error { return q.ownRecvs.Recv(id, sge) }

func (q *simQP) RecvList(list []ib.RecvWR) (int, error) { return q.ownRecvs.RecvList(list) }

func (q *simQP) Post(wr *ib.SendWR) error {
	if err := q.dev.call(CallSend); err != nil {
		return err
	}
	q.ownRecvs.net.mu.Lock()
	defer q.ownRecvs.net.mu.Unlock()
	if len(q.sends) == int(q.cap.SendWR) {
		return ib.ErrFull
	}
	w := *wr
	w.SGE, w.Inline = slices.Clone(wr.SGE), slices.Clone(wr.Inline)
	const inline = 1 << 3 // IBV_SEND_INLINE
	if w.Flags&inline == 0 {
		w.Inline = nil // a remainder of another request
	} else {
		w.SGE = nil
	}
	q.sends = append(q.sends, w)
	return nil
}

func (q *simQP) Ring() error {
	q.ownRecvs.net.mu.Lock()
	defer q.ownRecvs.net.mu.Unlock()
	if q.submitted == 0 && len(q.sends) > 0 {
		q.ownRecvs.net.busy = append(q.ownRecvs.net.busy, q)
	}
	q.submitted = len(q.sends)
	q.ownRecvs.net.progress()
	return nil
}

func (q *simQP) Query(uint32) (ib.QPAttr, error) {
	if err := q.dev.call(CallQueryQP); err != nil {
		return ib.QPAttr{}, err
	}
	q.ownRecvs.net.mu.Lock()
	defer q.ownRecvs.net.mu.Unlock()
	return ib.QPAttr{State: uint8(q.state), CurState: uint8(q.state), DestQPN: q.peer, AH: q.path.AHAttr,
		PKeyIndex: q.pkeyIndex, PathMTU: q.mtu}, nil
}

func (q *simQP) Modify(a *ib.QPAttr, mask uint32) error {
	m := verbs.AttrMask(mask)
	if err := q.dev.modify(m, verbs.State(a.State)); err != nil {
		return err
	}
	if err := q.dev.is.checkModify(a, m); err != nil {
		return err
	}
	q.ownRecvs.net.mu.Lock()
	defer q.ownRecvs.net.mu.Unlock()
	if err := q.setPath(a, m); err != nil {
		return err
	}
	if m&verbs.AttrMaxRDAtomic != 0 {
		q.reads = a.MaxRdAtomic
	}
	if m&verbs.AttrMaxDestRDAtomic != 0 {
		q.serves = a.MaxDestRdAtomic
	}
	if m&verbs.AttrDestQPN != 0 {
		q.peer = a.DestQPN
	}
	if m&verbs.AttrState != 0 {
		q.state = verbs.State(a.State)
	}
	switch q.state {
	case verbs.StateRTR:
		q.connected = true
	case verbs.StateReset: // removes all requests without completions
		q.sends, q.submitted, q.ownRecvs.posted = nil, 0, nil
	case verbs.StateErr:
		q.enterError()
	}
	q.ownRecvs.net.progress()
	return nil
}

func (q *simQP) Close() error {
	n := q.ownRecvs.net
	if err := q.dev.call(CallDestroyQP); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy = slices.DeleteFunc(n.busy, func(o *simQP) bool { return o == q })
	if i := n.indexOf(q.num); i >= 0 {
		n.qps = slices.Delete(n.qps, i, i+1)
	}
	q.removeCompletions()
	return nil
}

// enterError puts the queue pair into the error state and flushes its receives. executeNext flushes the submitted sends.
func (q *simQP) enterError() {
	q.state = verbs.StateErr
	for _, r := range q.ownRecvs.posted {
		q.recvCQ.addCompletion(ib.WC{ID: r.ID, Status: uint32(verbs.StatusFlushed), QPN: q.num})
	}
	q.ownRecvs.posted = nil
	q.flushShared()
	q.raiseLastWQE()
}

// executeNext executes the oldest submitted request. It returns false if there is none or it has to wait.
func (q *simQP) executeNext() bool {
	if q.submitted == 0 {
		return false
	}
	status, ok := verbs.StatusFlushed, true
	if q.state != verbs.StateErr {
		status, ok = q.execute(&q.sends[0])
	}
	if !ok {
		return false
	}
	w := q.sends[0]
	q.sends = slices.Delete(q.sends, 0, 1)
	q.submitted--
	if status != verbs.StatusSuccess || verbs.Flags(w.Flags)&verbs.Signaled != 0 || q.signalAll {
		q.sendCQ.addCompletion(ib.WC{ID: w.ID, Status: uint32(status), QPN: q.num})
	}
	if status != verbs.StatusSuccess && q.state != verbs.StateErr {
		q.enterError()
	}
	return true
}

// execute executes a request and returns its status. It returns false if the request has to wait.
func (q *simQP) execute(w *ib.SendWR) (verbs.Status, bool) {
	n := q.ownRecvs.net
	to := q.peer
	if q.typ == verbs.UD {
		if n.linkDown {
			return verbs.StatusLocalQPOperation, true
		}
		if n.dropDatagram != nil && n.dropDatagram() {
			return verbs.StatusSuccess, true
		}
		to = w.QPN
	}
	i := n.indexOf(to)
	reachable := q.state == verbs.StateRTS && i >= 0 && n.qps[i].typ == q.typ &&
		(n.qps[i].state == verbs.StateRTR || n.qps[i].state == verbs.StateRTS) && (q.typ == verbs.UD || n.qps[i].peer == q.num)
	if q.typ == verbs.UD {
		ah, _ := w.AH.(*simAH)
		if reachable && ah != nil && q.reaches(n.qps[i], ah.path) {
			n.qps[i].deliver(append(make([]byte, grhLen), n.gather(w)...))
		}
		return verbs.StatusSuccess, true
	}
	// A queue pair that has failed answers nothing, so retries end. Other requests wait, as if their retries took longer than the
	// owner of that queue pair takes to connect again. The owner learns nothing of a Read.
	if i >= 0 && n.qps[i].state == verbs.StateErr && n.qps[i].peer == q.num && q.state == verbs.StateRTS &&
		verbs.Opcode(w.Opcode) == verbs.OpRead {
		return verbs.StatusRetryExceeded, true
	}
	if !reachable || n.linkDown {
		return 0, false
	}
	if peer := n.qps[i]; !q.reaches(peer, q.path) || !peer.reaches(q, peer.path) { // the packets, or their acknowledgements
		return verbs.StatusRetryExceeded, !n.forever
	}
	if payload := min(n.payload(w), verbs.MTU(q.mtu).Bytes()); n.largest > 0 && payload > n.largest {
		return verbs.StatusRetryExceeded, !n.forever
	}
	if n.fail != nil {
		if s := n.fail(n.payload(w)); s != verbs.StatusSuccess {
			return s, true
		}
	}
	if verbs.Opcode(w.Opcode) == verbs.OpSend {
		return verbs.StatusSuccess, n.qps[i].deliver(n.gather(w))
	}
	b := n.gather(w)
	at := n.registeredMemory(w.RKey, w.Remote, len(b))
	read := verbs.Opcode(w.Opcode) == verbs.OpRead
	switch {
	case read && (q.reads == 0 || n.qps[i].serves < q.reads): // more than the peer serves at the same time
		n.qps[i].enterError()
		return verbs.StatusRemoteInvalid, true
	case len(b) == 0:
	case at == nil:
		n.qps[i].enterError()
		return verbs.StatusRemoteAccess, true
	case verbs.Opcode(w.Opcode) == verbs.OpWrite:
		copy(at, b)
	default:
		n.scatter(w.SGE, at)
	}
	return verbs.StatusSuccess, true
}

// deliver completes the oldest receive with a message. It returns false if no receive is posted.
func (q *simQP) deliver(b []byte) bool {
	if len(q.recvs.posted) == 0 {
		return false
	}
	r := q.recvs.posted[0]
	q.recvs.posted = q.recvs.posted[1:]
	if f := q.recvs.net.failReceive; f != nil && q.typ == verbs.RC {
		if s := f(len(b)); s != verbs.StatusSuccess {
			q.recvCQ.addCompletion(ib.WC{ID: r.ID, Status: uint32(s), QPN: q.num})
			q.enterError()
			return false
		}
	}
	q.ownRecvs.net.scatter(r.SGE, b)
	q.recvCQ.addCompletion(ib.WC{ID: r.ID, QPN: q.num, Len: uint32(len(b))})
	return true
}

// payload returns how many bytes a request moves.
func (n *SimulatedNetwork) payload(w *ib.SendWR) int {
	bytes := len(w.Inline)
	for _, e := range w.SGE {
		bytes += int(e.Len)
	}
	return bytes
}

// gather returns the bytes that a request sends.
func (n *SimulatedNetwork) gather(w *ib.SendWR) []byte {
	b := slices.Clone(w.Inline)
	for _, e := range w.SGE {
		b = append(b, n.localMemory(e)...)
	}
	return b
}

func (n *SimulatedNetwork) scatter(to []ib.SGE, b []byte) {
	for _, e := range to {
		b = b[copy(n.localMemory(e), b):]
	}
	if len(b) > 0 {
		panic("verbstest: a message is longer than its receive")
	}
}

// localMemory returns the memory of a scatter/gather entry. It panics if it is not registered: that is an error of the test.
func (n *SimulatedNetwork) localMemory(e ib.SGE) []byte {
	mem := n.registeredMemory(e.LKey, e.Addr, int(e.Len))
	if mem == nil {
		panic("verbstest: a request names memory that is not registered")
	}
	return mem
}
