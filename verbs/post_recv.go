package verbs

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// Recv queues a receive: a message is written to the memory that the list names and makes a completion with this ID. The device
// sees it immediately. Messages of datagrams begin with 40 bytes that belong to the device. The errors are those of Post.
func (q *QP) Recv(id uint64, sge ...SGE) error { return q.recv.post(id, sge) }

// Receive is a receive whose list has one entry, for RecvList.
type Receive struct {
	ID  uint64
	SGE SGE
}

// RecvList queues several receives, as Recv does. It costs less than a Recv for each. It returns how many of them, the first
// ones, were queued. If these are not all, the error is that of the next one.
func (q *QP) RecvList(list []Receive) (int, error) { return q.recv.postAll(list) }

// receiver is an [ib.QP] or an [ib.SRQ].
type receiver interface {
	Recv(id uint64, sge []ib.SGE) error
	RecvList(list []ib.RecvWR) (int, error)
}

// recvQueue is the part of a receive queue that belongs to package verbs, of a queue pair or a shared one.
type recvQueue struct {
	base      *base
	qp        *QP // nil for a shared receive queue
	queueLock     // guards the fields below, and is held during Recv of ib
	ib        receiver
	ring      *ib.RecvRing // of ib, or nil if ib is not a ring. Receives are written directly into it
	closed    bool
	hasSRQ    bool     // the pair takes its receives from an SRQ
	sge       []ib.SGE // without a ring, a list is copied here, so that what the caller passes need not be in the heap

	// These are written with queueLock.mu held. They are atomic because calls on a serialized queue read them without the mutex,
	// while the event of a lost device, a poll or a query writes them.
	open atomic.Bool // receives may be posted
	// stateChecks is after how many more receives the state of the pair is still checked: it may have failed before they were
	// posted.
	stateChecks atomic.Int32
}

// post queues a receive.
func (r *recvQueue) post(id uint64, sge []SGE) error {
	r.lock()
	if !r.open.Load() || r.hasSRQ || len(sge) > len(r.sge) {
		err := r.refusePost(id, len(sge))
		r.unlock()
		return err
	}
	var err error
	if r.ring != nil {
		if !r.ring.Post(id, castSGE(sge)) {
			err = ib.ErrFull
		}
	} else {
		if len(sge) == 1 { // the usual length; copy would be a call
			r.sge[0] = ib.SGE(sge[0])
		} else {
			copy(r.sge, castSGE(sge))
		}
		err = r.ib.Recv(id, r.sge[:len(sge)])
	}
	check := r.stateChecks.Load() > 0
	r.unlock()
	if err != nil {
		return r.postFailed(id, err)
	}
	if check {
		r.qp.flushReceives()
	}
	return nil
}

// postAll queues several receives.
func (r *recvQueue) postAll(list []Receive) (n int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	r.lock()
	if !r.open.Load() || r.hasSRQ || len(r.sge) == 0 {
		err := r.refusePost(list[0].ID, 1)
		r.unlock()
		return 0, err
	}
	n, err = r.ib.RecvList(castReceives(list))
	check := r.stateChecks.Load() > 0
	r.unlock()
	if check && n > 0 {
		r.qp.flushReceives()
	}
	if err != nil {
		return n, r.postFailed(list[n].ID, err)
	}
	return n, nil
}

// refusePost returns why a receive is refused before it is posted. The caller must hold the lock of r.
func (r *recvQueue) refusePost(id uint64, entries int) error {
	e := &Error{Op: "post a receive", Device: r.base.ctx.name, ID: id, Post: true, Kind: ErrInvalid}
	r.base.setQPN(e)
	switch {
	case r.hasSRQ:
		e.Detail = "the queue pair takes its receives from a shared receive queue; use SRQ.Recv"
	case r.base.ctx.lost.Load() != nil:
		e.Kind, e.Err = ErrDeviceLost, r.base.ctx.causeOf(ErrDeviceLost)
	case r.closed || r.base.kind == kindSRQ && !r.open.Load():
		e.Kind = ErrClosed
	case !r.open.Load():
		e.Kind, e.Detail = ErrState, "the queue pair is in RESET; receives can be posted from INIT on"
	default:
		e.Detail = fmt.Sprintf("the list has %d entries; the queue takes at most %d", entries, len(r.sge))
	}
	return e
}

// postFailed returns the error of a receive that the provider refused.
func (r *recvQueue) postFailed(id uint64, err error) error {
	e := &Error{Op: "post a receive", Device: r.base.ctx.name, ID: id, Post: true, Kind: kindOf(err), Err: err}
	if errors.Is(err, ib.ErrFull) {
		e.Kind, e.Err = ErrFull, nil
	}
	return r.base.setQPN(e)
}

// stateChecksAfterFailure is the number of receives after which the state of a queue pair is still checked once a request of it
// has failed. Usually the pair enters the state ERR together with the failure, just before or just after the completion. But the
// completion may also belong to an earlier pair that had the same number.
const stateChecksAfterFailure = 100

// requestFailed must be called when a request of the pair has failed. The state of the pair is then checked: now for the receives
// that are posted, and again with each receive that follows.
func (q *QP) requestFailed() {
	q.recv.mu.Lock()
	open := q.recv.open.Load()
	first := open && q.recv.stateChecks.Load() == 0 && !q.recv.hasSRQ
	if open {
		q.recv.stateChecks.Store(stateChecksAfterFailure)
	}
	q.recv.mu.Unlock()
	if first {
		q.flushReceives()
	}
}

// flushReceives flushes the receives that were posted after the pair had entered the state ERR. rxe flushes receives only when a
// pair enters that state. The device changes the state by itself, so flushReceives queries it. If the state is not ERR, the pair
// has not failed yet, and rxe flushes the receives when it does.
func (q *QP) flushReceives() {
	if q.enter("flush") != nil {
		return
	}
	defer q.leave()
	q.control.Lock() // no other change of state meanwhile
	defer q.control.Unlock()
	now, err := q.ib.Query(uint32(AttrState))
	if err != nil {
		return // the device is lost, which its event reports
	}
	if State(now.State) == StateErr {
		attr := ib.QPAttr{State: uint8(StateErr)}
		q.ib.Modify(&attr, uint32(AttrState)) // fails only if the device is lost, as Query does
		return
	}
	q.recv.mu.Lock()
	q.recv.stateChecks.Store(max(q.recv.stateChecks.Load()-1, 0))
	q.recv.mu.Unlock()
}
