package rdma

import (
	"errors"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
)

// The network may change the address of a port, see package datagrams. A connection over an old address breaks, and is made again
// by datagrams. So these must find the new one:
//
//   - A process whose own port has changed makes all connections again, and sends its new address with these datagrams. The
//     revision in it tells peers which of two addresses is the later one. They then make new address handles.
//   - A peer that does not answer for a while may have another MAC address. So the handle is renewed then, and the own port is
//     queried, in case that the device has reported no event. Mostly the host of the peer is gone: then its address cannot be
//     resolved, and the old handle stays.
//
// If both ports change at the same time, so that neither knows the address of the other, the peers lose each other.

// forgetConnected forgets the destinations of all connected peers, which are sent no datagrams. Devices have a limited number of
// address handles.
func (d *domain) forgetConnected() {
	for _, e := range d.eps {
		if e != nil && e.conn.State == cm.StateEstablished {
			e.addr.Forget()
		}
	}
}

// renewAfterSilence is called when a peer has answered no probe for some intervals in a row. After 1, 2, 4 and so on it renews
// what is known of the network.
func (d *domain) renewAfterSilence(e *endpoint, intervals int) {
	if intervals&(intervals-1) != 0 {
		return
	}
	e.addr.Renew()
	d.refreshAfterSilence(intervals)
}

// refreshAfterSilence queries the own ports if that is due because a peer was silent for so many intervals in a row.
func (d *domain) refreshAfterSilence(intervals int) {
	if d.cm.RefreshDue(d.clock.Now, d.liveness.Interval, intervals) {
		d.refreshAddress()
	}
}

// checkHandles is called when a device has reported a change of a port. The driver may have removed a GID and added it again at
// the same index, as Linux does when a bond uses another of its links. What was made with the old entry sends no more packets,
// although the address has not changed. So handles are renewed before they are used again. All connected peers are probed, which
// breaks the connections that do not work any more; they are made again.
func (d *domain) checkHandles() {
	for _, e := range d.eps {
		if e == nil {
			continue
		}
		e.addr.Outdate()
		e.keepalive.Probe = true
	}
}

// errAddressChanged is why connections are made again.
var errAddressChanged = errors.New("fabric/rdma: the address of the local port has changed")

// refreshAddress queries the ports, and makes all connections again if they do not work any more. It is called when a device
// reports a change, and when a peer does not answer.
func (d *domain) refreshAddress() {
	changed := d.cm.Refresh()
	if changed.Indices {
		d.clock.Next = 0 // restarts the queue pairs for datagrams
	}
	if changed.Moved {
		d.breakConnections(errAddressChanged)
	}
}

// breakConnections makes all connections again.
func (d *domain) breakConnections(err error) {
	for _, e := range d.eps {
		if e != nil && e.conn.State >= cm.StateREPSent && e.ended.Load() == nil {
			d.declareBroken(e, err)
		}
	}
}
