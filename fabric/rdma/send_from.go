package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
)

var _ fabric.Gatherer = (*endpoint)(nil)

// SendFrom packs the message into its slot. The device cannot take the parts from where they are: the caller may change them when
// SendFrom has returned, and a message that the peer has not received is sent again from its slot.
func (e *endpoint) SendFrom(header []byte, src fabric.Source, from int64, n int) error {
	if why := e.ended.Load(); why != nil {
		return e.sendError(why)
	}
	d := e.d
	if n < 0 || len(header)+n > d.caps.MaxSend {
		return fmt.Errorf("fabric/rdma: send to peer %d: a header of %d bytes and %d from parts: the limit is %d", e.peer,
			len(header), n, d.caps.MaxSend)
	}
	if e.peer == d.self {
		return d.loopback.sendFrom(d.self, header, src, from, n)
	}
	if e.conn.State != cm.StateEstablished || !e.out.hasCredit() {
		if e.conn.State == cm.StateIdle {
			e.requestConnect()
		}
		return fabric.ErrAgain
	}
	slot, ok := d.sends.take()
	if !ok {
		return d.blockSend()
	}
	b := d.sends.mem(slot)
	at := headerBytes + copy(b[headerBytes:], header)
	if src.Pack(b[at:at+n], from) != n {
		d.sends.give(slot)
		return errShortSource(e.peer, from, n)
	}
	return e.sendSlot(slot, b[:at+n])
}

// errShortSource returns the error for a source that has fewer than n bytes from a byte on.
func errShortSource(peer int, from int64, n int) error {
	return fmt.Errorf("fabric/rdma: send to peer %d: the source has fewer than %d bytes from byte %d on", peer, n, from)
}
