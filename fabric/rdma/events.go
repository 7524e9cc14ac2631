package rdma

import "github.com/ibrun/ibrun/fabric"

// events brings what happened to the caller of Poll: directly into the caller's slice, or through the queue when that is full.
type events struct {
	eventQueue                // events that were not delivered yet
	out        []fabric.Event // the caller's slice during a Poll, otherwise nil
	filled     int            // events in out
	borrowed   []borrowedSlot // slots of the messages that the last Poll delivered
}

// borrowedSlot is the receive slot of a message that was delivered. It is valid until the next Poll.
type borrowedSlot struct {
	ep   *endpoint
	slot uint32
}

// eventQueue is a FIFO queue of events.
type eventQueue struct {
	ring       []queuedEvent // its length is 0 or a power of two
	head, tail uint32
}

type queuedEvent struct {
	kind  fabric.EventKind
	ep    *endpoint
	slot  uint32 // of a message
	bytes uint32 // of a message
	token uint64
	err   error
}

func (q *eventQueue) len() int { return int(q.tail - q.head) }

func (q *eventQueue) put(ev queuedEvent) {
	if q.len() == len(q.ring) {
		ring := make([]queuedEvent, max(64, 2*len(q.ring)))
		for i := range q.len() {
			ring[i] = q.ring[(q.head+uint32(i))%uint32(len(q.ring))]
		}
		q.ring, q.head, q.tail = ring, 0, uint32(q.len())
	}
	q.ring[q.tail%uint32(len(q.ring))] = ev
	q.tail++
}

func (q *eventQueue) take() queuedEvent {
	p := &q.ring[q.head%uint32(len(q.ring))]
	ev := *p
	*p = queuedEvent{}
	q.head++
	return ev
}

// deliverQueued delivers queued events and messages to this process itself while the caller's slice has room.
func (d *domain) deliverQueued() {
	if d.loopback.Pending() {
		d.events.filled += d.loopback.Deliver(d.events.out[d.events.filled:], int32(d.self))
	}
	for d.events.filled < len(d.events.out) && d.events.len() > 0 {
		d.deliver(d.events.take())
	}
}

// deliver fills the next event of the caller's slice, which must have room. It drops events of an endpoint that was closed
// here, except the ends of transfers.
func (d *domain) deliver(q queuedEvent) {
	if q.ep.discarding && q.kind != fabric.Done {
		if q.kind == fabric.Message {
			d.freeRecvSlot(q.ep, q.slot)
		}
		return
	}
	if q.kind == fabric.Message {
		d.events.addMessage(q.ep, q.slot, d.recvs.payload(q.slot, q.bytes))
		return
	}
	ev := &d.events.out[d.events.filled]
	d.events.filled++
	ev.Kind, ev.Peer, ev.Token, ev.Err = q.kind, int32(q.ep.peer), q.token, q.err
}

// addMessage fills the next event of the caller's slice with a message. The slice must have room.
func (v *events) addMessage(e *endpoint, slot uint32, data []byte) {
	ev := &v.out[v.filled] // field by field: the others have no meaning for this kind, and clearing them takes time
	v.filled++
	ev.Kind, ev.Peer, ev.Data = fabric.Message, int32(e.peer), data
	v.borrowed = append(v.borrowed, borrowedSlot{e, slot})
}
