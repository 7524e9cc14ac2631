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

// disconnected is called when the peer's device has acknowledged the DREQ.
func (d *domain) disconnected(e *endpoint) {
	e.disconnect = disconnectDone
	if e.ended.Load() != nil {
		d.declareBroken(e, fabric.ErrClosed)
	}
}
