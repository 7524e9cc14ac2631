package messages

import "github.com/ibrun/ibrun/verbs"

// Devices without shared receive queues (irdma, ionic) need a receive queue for each connection.
// The slots come from the same pool, and the credits are the same: a slot is reserved for every
// message that a peer may send. Only where a slot is posted differs: with an SRQ all slots of the
// pool are posted there, without one those of a peer are posted to its queue pair, and the rest of
// the pool is free. So the memory has the same bound: two slots for every connected peer, and
// Receives.Pool for the windows of busy peers.
//
// For each peer, its window and one more slot, for control messages, are posted or held by messages
// that the caller has not released. While there is no connection, its slots are free; they stay
// reserved.

// Queue lists the slots that are posted to the receive queue of one queue pair, in the order in
// which the device fills them.
type Queue struct {
	qp         *verbs.QP
	id         uint32   // in the work request IDs, since a later queue pair may have the same number
	ring       []uint32 // slots; its length is a power of two
	head, tail uint32   // count slots that have completed, and that were posted
	failed     bool     // a receive has failed
	closing    bool     // the connection is being closed, so no more slots are posted
}

// NewQueue returns the receive queue of a queue pair that takes n receives. No two queues have the
// same id.
func NewQueue(qp *verbs.QP, id uint32, n int) *Queue {
	size := 1
	for size < n {
		size *= 2
	}
	return &Queue{qp: qp, id: id, ring: make([]uint32, size)}
}

// Posted returns how many slots are posted.
func (q *Queue) Posted() int { return int(q.tail - q.head) }

// post posts a slot.
func (q *Queue) post(slot uint32, sge verbs.SGE) error {
	if q.Posted() == len(q.ring) {
		return verbs.ErrFull
	}
	if err := q.qp.Recv(uint64(q.id)<<32|uint64(slot), sge); err != nil {
		return err
	}
	q.ring[q.tail%uint32(len(q.ring))] = slot
	q.tail++
	return nil
}

// postList posts slots as post does, by one call. It returns how many of them, the first ones, the
// device takes.
func (q *Queue) postList(s *Receives, slots []Borrowed) (int, error) {
	n := min(len(slots), len(q.ring)-q.Posted(), len(s.list))
	for i, b := range slots[:n] {
		s.list[i] = verbs.Receive{ID: uint64(q.id)<<32 | uint64(b.Slot), SGE: s.SGE(b.Slot, s.Bytes)}
	}
	n, err := q.qp.RecvList(s.list[:n])
	for _, b := range slots[:n] {
		q.ring[q.tail%uint32(len(q.ring))] = b.Slot
		q.tail++
	}
	return n, err
}

// complete removes the slot whose receive has completed. It returns false for a completion of an
// earlier queue pair, whose slots were free when it was closed.
func (q *Queue) complete(id uint64) bool {
	if q == nil || uint32(id>>32) != q.id || q.head == q.tail || q.ring[q.head%uint32(len(q.ring))] != uint32(id) {
		return false
	}
	q.head++
	return true
}

// Outcome is what the completion of a receive of a peer's own queue means.
type Outcome uint8

// The outcomes. In all but Arrived the slot is free.
const (
	Stale   Outcome = iota // it is of an earlier queue pair
	Arrived                // a message is in the slot
	Failed                 // the first receive of the queue that has failed
	Flushed                // another one that has failed: the device flushes them after the first
)

// Completed takes the slot of a completion out of the peer's own receive queue.
func (s *Receives) Completed(p *Peer, wc *verbs.WC) Outcome {
	q := p.queue
	if !q.complete(wc.ID) {
		return Stale
	}
	if wc.Status == verbs.StatusSuccess {
		return Arrived
	}
	s.Give(uint32(wc.ID))
	if q.failed {
		return Flushed
	}
	q.failed = true
	return Failed
}

// Attach sets the receive queue of a new connection, nil if it uses the SRQ, and fills it.
func (s *Receives) Attach(p *Peer, q *Queue) {
	p.queue = q
	s.fill(p)
}

// Detach is called when the connection is closed. The slots that are posted to its receive queue
// are free again.
func (s *Receives) Detach(p *Peer) {
	q := p.queue
	if q == nil {
		return
	}
	for ; q.head != q.tail; q.head++ {
		s.Give(q.ring[q.head%uint32(len(q.ring))])
	}
	p.queue = nil
}

// fill posts slots to the receive queue of a connection, until there is one for every message that
// the peer may send. Without an SRQ it must be called when a queue pair was created and when the
// window has grown. The slots must be reserved.
func (s *Receives) fill(p *Peer) {
	q := p.queue
	if q == nil || q.closing {
		return
	}
	for n := int(p.In.Window) + 1 - int(p.Held) - q.Posted(); n > 0 && len(s.Free) > 0; n-- {
		slot := s.Free[len(s.Free)-1]
		if err := q.post(slot, s.SGE(slot, s.Bytes)); err != nil {
			s.notTaken(p, err)
			return
		}
		s.Free = s.Free[:len(s.Free)-1]
	}
}

// postOwn posts a slot for the next message of a peer to the receive queue of its connection.
// Without a connection the slot is free, as it is while the connection is being closed.
func (s *Receives) postOwn(p *Peer, slot uint32) {
	if q := p.queue; q != nil && !q.closing {
		err := q.post(slot, s.SGE(slot, s.Bytes))
		if err == nil {
			return
		}
		s.notTaken(p, err)
	}
	s.Give(slot)
}

// postOwnLists is postOwn of several slots: those of one peer that follow each other are posted by
// one call.
func (s *Receives) postOwnLists(list []Borrowed) {
	for len(list) > 0 {
		p, n := list[0].Peer, 1
		for n < min(len(list), recvBatch) && list[n].Peer == p {
			n++
		}
		posted := 0
		if q := p.queue; q != nil && !q.closing {
			var err error
			if posted, err = q.postList(s, list[:n]); err != nil {
				s.notTaken(p, err)
			}
		}
		for _, b := range list[posted:n] {
			s.Give(b.Slot)
		}
		list = list[n:]
	}
}
