package rdma

import "github.com/ibrun/ibrun/fabric"

// disconnectState is the progress of an orderly disconnect that this side has begun.
type disconnectState uint8

const (
	disconnectNone disconnectState = iota
	disconnectDue                  // the DREQ is to be sent
	disconnectSent
	disconnectDone // the DREQ was acknowledged, or the peer is down
)

// disconnectByDatagram tells a peer that this side has closed if the DREQ was lost with the connection. Otherwise the peer would
// find it only when its own requests are not answered, and wait that long if it closes as well.
func (d *domain) disconnectByDatagram(e *endpoint) {
	if d.closed {
		d.cm.notices = append(d.cm.notices, e) // Close waits until they are sent
		return
	}
	d.trySendCM(e, cmDREQ, qpInfo{})
}

// disconnected is called when the peer's device has acknowledged the DREQ.
func (d *domain) disconnected(e *endpoint) {
	e.disconnect = disconnectDone
	if e.ended.Load() != nil {
		d.declareBroken(e, fabric.ErrClosed)
	}
}
