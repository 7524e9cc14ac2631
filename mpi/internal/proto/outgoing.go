package proto

import (
	"time"

	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// outgoing is a message for the transport, which may have to wait for room. Each request has one;
// those of control messages come from a free list.
type outgoing struct {
	next      *outgoing
	queued    bool     // in its peer's queue
	req       *Request // notified when the message has been sent; nil for a control message
	length    int      // of the header
	header    [wire.MaxHeader]byte
	body      []byte
	remaining []byte        // the payload after body, which further fragments carry
	marks     uint64        // of a message in fragments; 0: it is not measured
	spent     time.Duration // how long this process has copied them
	first     time.Duration // and the first one
	packed    packed        // in place of body and remaining if the data is in parts
}

// kind returns the kind of the message.
func (o *outgoing) kind() wire.Kind { return wire.Kind(o.header[0]) }

// nextFragment replaces the message by its next fragment of at most size bytes. It reports false if
// there is none.
func (o *outgoing) nextFragment(size int) bool {
	if len(o.remaining)+o.packed.rest == 0 {
		return false
	}
	if o.kind() == wire.FirstFrag {
		o.header, o.length = wire.Header(wire.Envelope{Kind: wire.Frag})
	}
	if q := &o.packed; q.data != nil {
		q.from += q.n
		q.n = min(q.rest, size)
		q.rest -= q.n
		return true
	}
	n := min(len(o.remaining), size)
	o.body, o.remaining = o.remaining[:n], o.remaining[n:]
	return true
}

// controlPool is a free list of messages that belong to no send request. links.clear puts
// them there.
type controlPool struct{ free *outgoing }

// take returns a message.
func (c *controlPool) take() *outgoing {
	o := c.free
	if o == nil {
		return new(outgoing)
	}
	c.free = o.next
	return o
}

// put puts a message into the free list.
func (c *controlPool) put(o *outgoing) { o.next, c.free = c.free, o }

// packed is a row of packed bytes in the data of a send.
type packed struct {
	data *parts
	from int // first byte
	n    int // bytes of this message
	rest int // bytes that follow, which further fragments carry
}

// clear sets p to zero. Usually it is.
func (p *packed) clear() {
	if p.data != nil {
		*p = packed{}
	}
}
