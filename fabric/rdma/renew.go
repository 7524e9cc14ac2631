package rdma

import "errors"

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

// renewAfterSilence is called when a peer has answered no probe for some intervals in a row. After 1, 2, 4 and so on it renews
// what is known of the network.
func (m *connManager) renewAfterSilence(e *endpoint, intervals int) {
	if intervals&(intervals-1) != 0 {
		return
	}
	e.addr.Renew()
	m.refreshAfterSilence(intervals)
}

// refreshAfterSilence queries the own ports if that is due because a peer was silent for so many intervals in a row.
func (m *connManager) refreshAfterSilence(intervals int) {
	if m.RefreshDue(m.clock.Now, m.limits.Interval, intervals) {
		m.refreshAddress()
	}
}

// errAddressChanged is why connections are made again.
var errAddressChanged = errors.New("fabric/rdma: the address of the local port has changed")

// refreshAddress queries the ports, and makes all connections again if they do not work any more. It is called when a device
// reports a change, and when a peer does not answer.
func (m *connManager) refreshAddress() {
	changed := m.Refresh()
	if changed.Indices {
		m.clock.Next = 0 // restarts the queue pairs for datagrams
	}
	if changed.Moved {
		m.eps.breakConnections(errAddressChanged)
	}
}
