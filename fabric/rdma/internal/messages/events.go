package messages

import "github.com/ibrun/ibrun/fabric"

// Events brings what happened to the caller of Poll: directly into the caller's slice, or through a
// queue when that is full. The queue is a FIFO.
type Events struct {
	Loopback Loopback // messages to this process itself, which are delivered with the others

	ring       []Event // not delivered yet; its length is 0 or a power of two
	head, tail uint32
	out        []fabric.Event // the caller's slice during a Poll, otherwise nil
	filled     int            // events in out
	borrowed   []Borrowed
}

// Event is an event that is queued.
type Event struct {
	Kind  fabric.EventKind
	Peer  *Peer
	Slot  uint32 // of a message
	Bytes uint32 // of a message
	Token uint64
	Err   error
}

// Borrowed is the receive slot of a message that was delivered. It is valid until the next Poll.
type Borrowed struct {
	Peer *Peer
	Slot uint32
}

// Begin sets the slice of the caller of Poll, which is filled from its beginning. A nil slice is
// full.
func (v *Events) Begin(out []fabric.Event) { v.out, v.filled = out, 0 }

// Resume sets the slice again after End. It is filled further.
func (v *Events) Resume(out []fabric.Event) { v.out = out }

// End forgets the slice, and returns how many events are in it.
func (v *Events) End() int {
	v.out = nil
	return v.filled
}

// Queued returns how many events wait in the queue.
func (v *Events) Queued() int { return int(v.tail - v.head) }

// Ready reports whether the caller of Poll waits for events that are in its slice or in the queue.
func (v *Events) Ready() bool { return v.filled > 0 || v.Queued() > 0 }

// Pending reports whether something waits to be delivered.
func (v *Events) Pending() bool { return v.Queued() > 0 || v.Loopback.Pending() }

// Idle reports whether nothing is queued, and the caller has borrowed no slots.
func (v *Events) Idle() bool { return len(v.borrowed) == 0 && v.Queued() == 0 }

// Put queues an event.
func (v *Events) Put(ev Event) {
	if v.Queued() == len(v.ring) {
		v.grow()
	}
	v.ring[v.tail%uint32(len(v.ring))] = ev
	v.tail++
}

func (v *Events) grow() {
	n := v.Queued()
	ring := make([]Event, max(64, 2*len(v.ring)))
	for i := range n {
		ring[i] = v.ring[(v.head+uint32(i))%uint32(len(v.ring))]
	}
	v.ring, v.head, v.tail = ring, 0, uint32(n)
}

// take removes and returns the oldest event of the queue, which must not be empty.
func (v *Events) take() Event {
	p := &v.ring[v.head%uint32(len(v.ring))]
	ev := *p
	*p = Event{}
	v.head++
	return ev
}

// Receive delivers a message that has arrived in a slot, or queues it behind others.
func (v *Events) Receive(s *Receives, p *Peer, slot, bytes uint32) {
	p.Held++
	if v.Queued() == 0 && v.filled < len(v.out) && !p.In.Discarding {
		v.message(p, slot, s.Payload(slot, bytes))
	} else {
		v.Put(Event{Kind: fabric.Message, Peer: p, Slot: slot, Bytes: bytes})
	}
}

// message fills the next event of the caller's slice with a message. The slice must have room.
func (v *Events) message(p *Peer, slot uint32, data []byte) {
	ev := &v.out[v.filled] // field by field: the others have no meaning for this kind, and clearing them takes time
	v.filled++
	ev.Kind, ev.Peer, ev.Data = fabric.Message, p.Number, data
	v.borrowed = append(v.borrowed, Borrowed{p, slot})
}

// Deliver delivers messages of this process, whose number is self, to itself, and queued events,
// while the caller's slice has room. It drops events of an endpoint that was closed here, except
// the ends of transfers.
func (v *Events) Deliver(s *Receives, self int32) {
	if v.Loopback.Pending() {
		v.filled += v.Loopback.Deliver(v.out[v.filled:], self)
	}
	for v.filled < len(v.out) && v.Queued() > 0 {
		q := v.take()
		switch {
		case q.Peer.In.Discarding && q.Kind == fabric.Message:
			s.Drop(q.Peer, q.Slot)
		case q.Peer.In.Discarding && q.Kind != fabric.Done:
		case q.Kind == fabric.Message:
			v.message(q.Peer, q.Slot, s.Payload(q.Slot, q.Bytes))
		default:
			ev := &v.out[v.filled]
			v.filled++
			ev.Kind, ev.Peer, ev.Token, ev.Err = q.Kind, q.Peer.Number, q.Token, q.Err
		}
	}
}

// Drop drops all events that are queued.
func (v *Events) Drop(s *Receives) {
	for v.Queued() > 0 {
		if q := v.take(); q.Kind == fabric.Message {
			s.Drop(q.Peer, q.Slot)
		}
	}
}

// Release posts the slots of the messages again that the last Poll delivered. Their bytes are not
// valid any more.
func (v *Events) Release(s *Receives) {
	if len(v.borrowed) > 0 {
		s.postBorrowed(v.borrowed) // before the credits for them
		for _, b := range v.borrowed {
			s.freed(b.Peer)
		}
		v.borrowed = v.borrowed[:0]
	}
	v.Loopback.Release()
}
