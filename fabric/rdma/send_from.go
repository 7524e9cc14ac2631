package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
)

var _ fabric.Gatherer = (*endpoint)(nil)

// SendFrom packs the message into its slot. The device cannot take the parts from where they are: the caller may change them when
// SendFrom has returned, and a message that the peer has not received is sent again from its slot.
func (e *endpoint) SendFrom(header []byte, src fabric.Source, from int64, n int) error {
	if why := e.ended.Load(); why != nil {
		return why.sendError()
	}
	d := e.d
	if n < 0 || len(header)+n > d.caps.MaxSend {
		return fmt.Errorf("fabric/rdma: send to peer %d: a header of %d bytes and %d from parts: the limit is %d", e.peer,
			len(header), n, d.caps.MaxSend)
	}
	if e.peer == d.self {
		return d.events.Loopback.SendFrom(d.self, header, src, from, n)
	}
	if e.conn.State != cm.StateEstablished || !e.msgs.Out.HasCredit() {
		if e.conn.State == cm.StateIdle {
			d.cm.request(e)
		}
		return fabric.ErrAgain
	}
	slot, ok := d.poster.Sends.Take()
	if !ok {
		return d.blockSend()
	}
	b := d.poster.Sends.Mem(slot)
	at := messages.HeaderBytes + copy(b[messages.HeaderBytes:], header)
	if src.Pack(b[at:at+n], from) != n {
		d.poster.Sends.Give(slot)
		return messages.ErrShortSource(e.peer, from, n)
	}
	return e.sendSlot(slot, b[:at+n])
}
