package rdma

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/verbs"
)

// A device answers a message with an RNR NAK (receiver not ready) if no receive is posted for it. The sender's device then
// waits and sends the message again, which costs a lot of time. This transport avoids RNR NAKs by credits, see
// internal/messages/credits.go: the receiver reserves a receive slot for every message that a peer may send, and posts it to the
// shared receive queue (SRQ), or without one to the queue of the connection, before it grants the credit. So a receive is always
// posted when a message arrives.
//
// Should the peer's device send an RNR NAK all the same, the device repeats the message, by default without limit. So a
// completion with [verbs.StatusRNRRetryExceeded] (IBV_WC_RNR_RETRY_EXC_ERR) is not expected. It is handled like any other
// connection error: the connection is made again, and messages that were not acknowledged are sent again, see reconnect.go.

// connParams returns the parameters of RC connections and address handles. The MTU is that of a connection.
//
// By default a device retransmits 7 times. Soft-RoCE takes 7 for no limit, so there the keepalive finds lost peers. Other devices
// give up after half a second or more, and then the connection is made again.
func (s *Settings) connParams() verbs.Params {
	p := verbs.DefaultParams()
	p.SL, p.TrafficClass = uint8(s.ServiceLevel), uint8(s.TrafficClass)
	p.Timeout, p.RetryCount, p.RNRRetry = uint8(s.Timeout), uint8(s.Retries), uint8(s.RNRRetries)
	return p
}

// recvSlots are the bounce buffers in which messages arrive. Each is posted to the SRQ, or holds a message that the caller has
// not released yet. Without an SRQ it may also be posted to the queue of a connection, or free.
type recvSlots struct {
	messages.Slots
	srq      *verbs.SRQ // of the first rail; all connections share it. nil: see recvQueue
	reserved int        // slots that are reserved for peers

	// list collects slots that are posted by one call; used is how many. Between calls of this package it is empty.
	list [recvBatch]verbs.Receive
	used int

	unposted []uint32    // slots that the SRQ has not taken
	short    []*endpoint // whose receive queue has not taken a slot
	refusal  error       // the last one
	// The device is asked again at retryAt, if it has not taken all so many times in a row since some time.
	refusals       int16
	since, retryAt time.Duration
}

// recvBatch is how many slots are posted by one call at most: as many as one poll finds completions.
const recvBatch = 16

// maxRecvSlots returns how many receive slots there may be: two for every peer, and those for the windows of busy peers.
func maxRecvSlots(set *Settings, size int) int {
	return max(2*size+set.poolSlots(), 2*messages.BlockSlots) + messages.BlockSlots
}

// maxSharedSlots is how many receive slots are posted to an SRQ at most. More peers share them.
const maxSharedSlots = 1 << 14

// post posts a slot for the next message: to the SRQ, or without one for the peer that it is reserved for.
func (s *recvSlots) post(e *endpoint, slot uint32) {
	if s.srq == nil {
		s.postOwn(e, slot)
		return
	}
	if err := s.srq.Recv(uint64(slot), s.SGE(slot, s.Bytes)); err != nil { // it has room for every slot
		s.unposted, s.refusal = append(s.unposted, slot), err
	}
}

// postLater adds a slot to those that postCollected posts to the SRQ.
func (s *recvSlots) postLater(slot uint32) {
	s.list[s.used] = verbs.Receive{ID: uint64(slot), SGE: s.SGE(slot, s.Bytes)}
	if s.used++; s.used == len(s.list) {
		s.postCollected()
	}
}

// postCollected posts the slots that postLater has collected.
func (s *recvSlots) postCollected() {
	n, err := s.srq.RecvList(s.list[:s.used])
	if err != nil {
		s.refusal = err
		for _, r := range s.list[n:s.used] {
			s.unposted = append(s.unposted, uint32(r.ID))
		}
	}
	s.used = 0
}

// incomplete reports whether the device has not taken all slots that were to be posted.
func (s *recvSlots) incomplete() bool { return len(s.unposted) > 0 || len(s.short) > 0 }

// postAgain posts the slots that the device has not taken, unless it has refused them a moment ago. If it goes on to refuse them,
// postAgain returns an error: messages of peers would wait for them for ever.
func (d *domain) postAgain() error {
	s, now := &d.recvs, d.clock.Elapsed()
	if s.refusals > 0 && now < s.retryAt {
		return nil
	}
	if s.postUnposted(); !s.incomplete() {
		s.refusals, s.retryAt = 0, 0
		return nil
	}
	if s.refusals == 0 {
		s.since = now
	}
	if s.refusals++; liveness.LastsTooLong(s.refusals, now-s.since) {
		return fmt.Errorf("fabric/rdma: %w", s.refusal)
	}
	s.retryAt = now + liveness.RetryPause(s.refusals) // a caller that sleeps is woken then: see Arm
	return nil
}

// postUnposted posts the slots that the device has not taken.
func (s *recvSlots) postUnposted() {
	slots, short := s.unposted, s.short
	s.unposted, s.short = nil, nil
	for _, slot := range slots {
		s.post(nil, slot)
	}
	for _, e := range short {
		s.fill(e)
	}
}

// postBorrowed posts the slots of messages that were delivered. Their peers may be different ones.
func (s *recvSlots) postBorrowed(slots []borrowedSlot) {
	if len(slots) == 1 { // the usual number, and a Recv takes less time than a list
		s.post(slots[0].ep, slots[0].slot)
		return
	}
	if s.srq == nil {
		s.postOwnLists(slots)
		return
	}
	for _, b := range slots {
		s.postLater(b.slot)
	}
	s.postCollected()
}

// payload returns the n bytes behind the header of the message in a slot.
func (s *recvSlots) payload(slot, n uint32) []byte { return s.Mem(slot)[messages.HeaderBytes:][:n:n] }

// reserve reserves n slots for a peer. It adds slots if there are too few, and posts them to the SRQ. When there are as many as
// the SRQ takes, thousands of peers share them: more are reserved than there are, and a message for which none is posted waits
// in the device of its sender, see rnrRetryForever. Without an SRQ nothing can be shared, and reserve returns an error.
func (s *recvSlots) reserve(n int) error {
	for s.reserved+n > s.Total() && (s.srq == nil || !s.Full()) {
		if err := s.Grow(); err != nil {
			return err
		}
		if s.srq == nil {
			continue
		}
		for _, slot := range s.Free {
			s.postLater(slot)
		}
		s.postCollected()
		s.Free = s.Free[:0]
	}
	s.reserved += n
	return nil
}

// growWindow gives a peer that needs credits a wider window, if enough slots can be reserved. Otherwise the window stays as it
// is.
func (d *domain) growWindow(e *endpoint) {
	w := e.in.NextWindow(uint32(d.settings.Window))
	n := int(w - e.in.Window)
	if n == 0 || d.recvs.reserved+n > d.growthLimit() || d.recvs.reserve(n) != nil {
		return
	}
	e.in.Window = w
	d.recvs.fill(e)
	if e.in.CreditDue() {
		d.sendControl(e, messages.Credit)
	}
}

// growthLimit returns how many slots may be reserved after a window has grown. Without an SRQ, the first two slots of every peer
// are left: a peer that connects when all are reserved would be refused.
func (d *domain) growthLimit() int {
	most := d.recvs.Limit
	if d.recvs.srq == nil {
		most -= (d.size - 1) * (messages.InitialWindow + 1)
	}
	return min(d.settings.poolSlots(), most)
}
