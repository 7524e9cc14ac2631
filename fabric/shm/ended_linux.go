package shm

import (
	"fmt"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
)

// peerEnded records that a peer has ended or closed its domain. The watcher's goroutine calls it. Poll finds the change as it
// finds those that peers record.
//
// It wakes this peer even if the flag asleep is not set: the peer that has ended may have cleared the flag, and been killed
// before it sent the message. At worst a later sleep ends once without an event.
func (d *Domain) peerEnded(local int) {
	d.ended[local/64].Or(1 << (local % 64))
	self := d.notified.Load()
	if self == nil {
		return // openSockets checks the bitmap
	}
	atomic.AddUint64(&self.changes, 1)
	atomic.AndUint32(&self.flags, ^uint32(asleep)) // after the change is counted, as in notify
	d.senders.wake(d.selfIndex)
}

// hasEnded reports whether a peer has ended or closed its domain.
func (d *Domain) hasEnded(local int) bool { return d.ended[local/64].Load()>>(local%64)&1 != 0 }

// endOf handles the end of a peer. Its records that remain are delivered first. Its last stores are visible: the kernel closed
// its socket after them.
func (d *Domain) endOf(from int) {
	if d.down[from] || from == d.selfIndex {
		return
	}
	c := d.controls[from]
	var err error
	if atomic.LoadUint32(&c.flags)&closed == 0 {
		err = fmt.Errorf("shm: peer %d: %w: its process has ended", d.local[from], fabric.ErrPeerDown)
	}
	switch in := d.inbounds.from[from]; {
	case in != nil:
		if in.closed, d.slowPoll = true, true; in.endedErr == nil {
			in.endedErr = err
		}
	case d.endpoints[from] != nil, err != nil && atomic.LoadUint32(&c.opened) != 0:
		d.markDown(from, err)
	}
}
