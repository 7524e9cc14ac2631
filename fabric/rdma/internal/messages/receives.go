package messages

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/verbs"
)

// Receives are the bounce buffers in which messages arrive. Each is posted to the SRQ, or holds a
// message that the caller has not released yet. Without an SRQ it may also be posted to the queue
// of a connection, or free.
type Receives struct {
	Slots
	SRQ      *verbs.SRQ // of the first rail; all connections share it. nil: see Queue
	Pool     int        // slots for the windows of busy peers
	Peers    int        // how many peers may connect
	Window   uint32     // most slots for the data messages of one peer
	Reserved int        // slots that are reserved for peers; changed only by methods
	// SendCredit sends a credit update to a peer. It must be set.
	SendCredit func(*Peer)
	// Retry says when the device is asked again to take the slots that it has refused.
	Retry liveness.RefusedCall

	// list collects slots that are posted by one call; used is how many. Between calls of this
	// package it is empty.
	list [recvBatch]verbs.Receive
	used int

	unposted []uint32 // slots that the SRQ has not taken
	short    []*Peer  // whose receive queue has not taken a slot
	refusal  error    // the last one
}

// recvBatch is how many slots are posted by one call at most: as many as one poll finds
// completions.
const recvBatch = 16

// MaxShared is how many receive slots are posted to an SRQ at most. More peers share them.
const MaxShared = 1 << 14

// MaxReceives returns how many receive slots there may be: two for every process of the job, and
// those for the windows of busy peers.
func MaxReceives(pool, size int) int { return max(2*size+pool, 2*BlockSlots) + BlockSlots }

// Post posts a slot for the next message: to the SRQ, or without one for the peer that it is
// reserved for. With an SRQ the peer may be nil.
func (s *Receives) Post(p *Peer, slot uint32) {
	if s.SRQ == nil {
		s.postOwn(p, slot)
		return
	}
	if err := s.SRQ.Recv(uint64(slot), s.SGE(slot, s.Bytes)); err != nil { // it has room for every slot
		s.unposted, s.refusal = append(s.unposted, slot), err
	}
}

// postBorrowed posts the slots of messages that were delivered. Their peers may be different ones.
func (s *Receives) postBorrowed(slots []Borrowed) {
	if len(slots) == 1 { // the usual number, and a Recv takes less time than a list
		s.Post(slots[0].Peer, slots[0].Slot)
		return
	}
	if s.SRQ == nil {
		s.postOwnLists(slots)
		return
	}
	for _, b := range slots {
		s.postLater(b.Slot)
	}
	s.postCollected()
}

// postLater adds a slot to those that postCollected posts to the SRQ.
func (s *Receives) postLater(slot uint32) {
	s.list[s.used] = verbs.Receive{ID: uint64(slot), SGE: s.SGE(slot, s.Bytes)}
	if s.used++; s.used == len(s.list) {
		s.postCollected()
	}
}

// postCollected posts the slots that postLater has collected.
func (s *Receives) postCollected() {
	n, err := s.SRQ.RecvList(s.list[:s.used])
	if err != nil {
		s.refusal = err
		for _, r := range s.list[n:s.used] {
			s.unposted = append(s.unposted, uint32(r.ID))
		}
	}
	s.used = 0
}

// notTaken records that the receive queue of a connection has not taken a slot, unless that is
// because the queue pair has failed, which its completions report, or because the queue is full.
func (s *Receives) notTaken(p *Peer, err error) {
	if errors.Is(err, verbs.ErrState) || errors.Is(err, verbs.ErrFull) || slices.Contains(s.short, p) {
		return
	}
	s.short, s.refusal = append(s.short, p), err
}

// Incomplete reports whether the device has not taken all slots that were to be posted.
func (s *Receives) Incomplete() bool { return len(s.unposted) > 0 || len(s.short) > 0 }

// PostAgain posts the slots that the device has not taken, unless it has refused them a moment ago.
// If it goes on to refuse them, PostAgain returns an error: messages of peers would wait for them
// for ever.
func (s *Receives) PostAgain(now time.Duration) error {
	if s.Retry.Waits(now) {
		return nil
	}
	if s.postUnposted(); !s.Incomplete() {
		s.Retry.End()
		return nil
	}
	if s.Retry.Refused(now) {
		return fmt.Errorf("fabric/rdma: %w", s.refusal)
	}
	return nil // a caller that sleeps is woken for the next attempt
}

// postUnposted posts the slots that the device has not taken.
func (s *Receives) postUnposted() {
	slots, short := s.unposted, s.short
	s.unposted, s.short = nil, nil
	for _, slot := range slots {
		s.Post(nil, slot)
	}
	for _, p := range short {
		s.fill(p)
	}
}

// Payload returns the n bytes behind the header of the message in a slot.
func (s *Receives) Payload(slot, n uint32) []byte { return s.Mem(slot)[HeaderBytes:][:n:n] }

// Reserve reserves n slots. If there are too few, it registers further blocks of BlockSlots slots and
// posts them to the SRQ. Only Reserve adds slots to the SRQ, so the SRQ has none until the first peer
// is admitted.
//
// When there are as many slots as the SRQ takes, thousands of peers share them: more are reserved
// than there are, and a message for which none is posted waits in the device of its sender, which
// retries without limit. Without an SRQ nothing can be shared, and Reserve returns an error.
func (s *Receives) Reserve(n int) error {
	for s.Reserved+n > s.Total() && (s.SRQ == nil || !s.Full()) {
		if err := s.Grow(); err != nil {
			return err
		}
		if s.SRQ == nil {
			continue
		}
		for _, slot := range s.Free {
			s.postLater(slot)
		}
		s.postCollected()
		s.Free = s.Free[:0]
	}
	s.Reserved += n
	return nil
}

// Admit reserves the first slots for a peer, before its first connection.
func (s *Receives) Admit(p *Peer) error {
	if p.In.Window != 0 {
		return nil
	}
	if err := s.Reserve(InitialWindow + 1); err != nil {
		return err
	}
	p.In.Window = InitialWindow
	return nil
}

// Dismiss ends the reservation for a peer, apart from the slots that are held.
func (s *Receives) Dismiss(p *Peer) {
	if p.In.Window > 0 {
		s.Reserved -= int(p.In.Window) + 1 - int(p.Held)
		p.In.Window = 0
	}
}

// Drop posts the slot of a data message again that is not delivered.
func (s *Receives) Drop(p *Peer, slot uint32) {
	s.Post(p, slot)
	s.freed(p)
}

// freed is called when the slot of a data message was posted again.
func (s *Receives) freed(p *Peer) {
	p.Held--
	if p.In.Window == 0 {
		s.Reserved-- // the peer was dismissed: this was one of the last slots reserved for it
		return
	}
	p.In.Freed++
	if p.In.CreditDue() {
		s.SendCredit(p)
	}
}

// GrowWindow gives a peer that needs credits a wider window, if enough slots can be reserved.
// Otherwise the window stays as it is.
func (s *Receives) GrowWindow(p *Peer) {
	w := p.In.NextWindow(s.Window)
	n := int(w - p.In.Window)
	if n == 0 || s.Reserved+n > s.growthLimit() || s.Reserve(n) != nil {
		return
	}
	p.In.Window = w
	s.fill(p)
	if p.In.CreditDue() {
		s.SendCredit(p)
	}
}

// growthLimit returns how many slots may be reserved after a window has grown. Without an SRQ, the
// first two slots of every peer are left: a peer that connects when all are reserved would be
// refused.
func (s *Receives) growthLimit() int {
	most := s.Limit
	if s.SRQ == nil {
		most -= s.Peers * (InitialWindow + 1)
	}
	return min(s.Pool, most)
}
