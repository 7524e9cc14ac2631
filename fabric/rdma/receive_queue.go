package rdma

import (
	"errors"
	"slices"

	"github.com/ibrun/ibrun/verbs"
)

// Devices without shared receive queues (irdma, ionic) need a receive queue for each connection. The slots come from the same
// pool, and the credits are the same: a slot is reserved for every message that a peer may send. Only where a slot is posted
// differs: with an SRQ all slots of the pool are posted there, without one those of a peer are posted to its queue pair, and the
// rest of the pool is free. So the memory has the same bound: two slots for every connected peer, and Settings.Pool for the
// windows of busy peers.
//
// For each peer, its window and one more slot, for control messages, are posted or held by messages that the caller has not
// released. While there is no connection, its slots are free; they stay reserved.

// recvQueue lists the slots that are posted to the receive queue of one queue pair, in the order in which the device fills them.
type recvQueue struct {
	qp         *verbs.QP
	id         uint32   // in the work request IDs, since a later queue pair may have the same number
	ring       []uint32 // slots; its length is a power of two
	head, tail uint32   // count slots that have completed, and that were posted
	failed     bool     // a receive has failed, and the connection was declared broken
}

// newRecvQueue returns the receive queue of a queue pair that takes n receives.
func newRecvQueue(qp *verbs.QP, id uint32, n int) *recvQueue {
	size := 1
	for size < n {
		size *= 2
	}
	return &recvQueue{qp: qp, id: id, ring: make([]uint32, size)}
}

// posted returns how many slots are posted.
func (q *recvQueue) posted() int { return int(q.tail - q.head) }

// post posts a slot.
func (q *recvQueue) post(slot uint32, sge verbs.SGE) error {
	if q.posted() == len(q.ring) {
		return verbs.ErrFull
	}
	if err := q.qp.Recv(uint64(q.id)<<32|uint64(slot), sge); err != nil {
		return err
	}
	q.ring[q.tail%uint32(len(q.ring))] = slot
	q.tail++
	return nil
}

// postList posts slots as post does, by one call. It returns how many of them, the first ones, the device takes.
func (q *recvQueue) postList(s *recvSlots, slots []borrowedSlot) (int, error) {
	n := min(len(slots), len(q.ring)-q.posted(), len(s.list))
	for i, b := range slots[:n] {
		s.list[i] = verbs.Receive{ID: uint64(q.id)<<32 | uint64(b.slot), SGE: s.SGE(b.slot, s.Bytes)}
	}
	n, err := q.qp.RecvList(s.list[:n])
	for _, b := range slots[:n] {
		q.ring[q.tail%uint32(len(q.ring))] = b.slot
		q.tail++
	}
	return n, err
}

// complete removes the slot whose receive has completed. It returns false for a completion of an earlier queue pair, whose
// slots were free when it was closed.
func (q *recvQueue) complete(id uint64) bool {
	if q == nil || uint32(id>>32) != q.id || q.head == q.tail || q.ring[q.head%uint32(len(q.ring))] != uint32(id) {
		return false
	}
	q.head++
	return true
}

// recvQueue returns the receive queue of the connection, nil without a connection or with an SRQ.
func (e *endpoint) recvQueue() *recvQueue {
	if q := e.messageQP(); q != nil {
		return q.recvs
	}
	return nil
}

// fill posts slots to the receive queue of a connection, until there is one for every message that the peer may send. Without an
// SRQ it must be called when a queue pair was created and when the window has grown. The slots must be reserved.
func (s *recvSlots) fill(e *endpoint) {
	q := e.recvQueue()
	if q == nil || e.teardown != nil {
		return
	}
	for n := int(e.in.Window) + 1 - int(e.held) - q.posted(); n > 0 && len(s.Free) > 0; n-- {
		slot := s.Free[len(s.Free)-1]
		if err := q.post(slot, s.SGE(slot, s.Bytes)); err != nil {
			s.notTaken(e, err)
			return
		}
		s.Free = s.Free[:len(s.Free)-1]
	}
}

// postOwn posts a slot for the next message of a peer to the receive queue of its connection. Without a connection the slot is
// free, as it is while the connection is being closed.
func (s *recvSlots) postOwn(e *endpoint, slot uint32) {
	if q := e.recvQueue(); q != nil && e.teardown == nil {
		err := q.post(slot, s.SGE(slot, s.Bytes))
		if err == nil {
			return
		}
		s.notTaken(e, err)
	}
	s.Give(slot)
}

// notTaken records that the receive queue of a connection has not taken a slot, unless that is because the queue pair has failed,
// which its completions report, or because the queue is full.
func (s *recvSlots) notTaken(e *endpoint, err error) {
	if errors.Is(err, verbs.ErrState) || errors.Is(err, verbs.ErrFull) || slices.Contains(s.short, e) {
		return
	}
	s.short, s.refusal = append(s.short, e), err
}

// postOwnLists is postOwn of several slots: those of one peer that follow each other are posted by one call.
func (s *recvSlots) postOwnLists(list []borrowedSlot) {
	for len(list) > 0 {
		e, n := list[0].ep, 1
		for n < min(len(list), recvBatch) && list[n].ep == e {
			n++
		}
		posted := 0
		if q := e.recvQueue(); q != nil && e.teardown == nil {
			var err error
			if posted, err = q.postList(s, list[:n]); err != nil {
				s.notTaken(e, err)
			}
		}
		for _, b := range list[posted:n] {
			s.Give(b.slot)
		}
		list = list[n:]
	}
}

// reclaim frees the slots that are posted to the receive queue of a queue pair that was closed.
func (s *recvSlots) reclaim(q *recvQueue) {
	if q == nil {
		return
	}
	for ; q.head != q.tail; q.head++ {
		s.Give(q.ring[q.head%uint32(len(q.ring))])
	}
}

// receivedOwn takes the slot of a completion out of the receive queue of its connection. It returns false if there is no message
// in it: because the completion is of a queue pair that was closed, or because the receive has failed.
func (d *domain) receivedOwn(e *endpoint, wc *verbs.WC) bool {
	if e == nil {
		return false
	}
	q := e.recvQueue()
	if !q.complete(wc.ID) {
		return false
	}
	if e.teardown != nil && q.posted() == 0 {
		d.cm.closing.lastCompletion(e)
	}
	if wc.Status == verbs.StatusSuccess {
		return true
	}
	d.recvs.Give(uint32(wc.ID))
	if !q.failed && e.teardown == nil { // the others are flushed after it
		q.failed = true
		d.receiveFailed(e, wc)
	}
	return false
}
