package rdma

import (
	"errors"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/verbs"
)

// The address of a port is not constant. A subnet manager may give it another LID or subnet prefix, or move the keys of its
// partitions; a RoCE port may get another GID, and the host another MAC address. A connection over an old address breaks, and is
// made again by datagrams. So these must find the new one:
//
//   - A process whose own port has changed makes all connections again, and sends its new address with these datagrams. The
//     revision in it tells peers which of two addresses is the later one. They then make new address handles.
//   - A peer that does not answer for a while may have another MAC address. So the handle is renewed then, and the own port is
//     queried, in case that the device has reported no event. Mostly the host of the peer is gone: then its address cannot be
//     resolved, and the old handle stays.
//
// If both ports change at the same time, so that neither knows the address of the other, the peers lose each other.

// destination is where datagrams to a peer go.
type destination struct {
	verbs.Dest
	ud        *verbs.QP // our queue pair, which is in the partition of the peer's
	responder uint32    // number of the peer's queue pair that answers probes
	revision  uint16    // of our own address
	stale     bool      // is to be renewed if possible
}

// newDestination returns the destination of datagrams to a peer from the queue pair ud, which must be in the same partition. It
// blocks until the address is resolved.
func newDestination(ud *verbs.QP, peer cm.Datagrams, params verbs.Params) (*destination, error) {
	dest, err := ud.DestWith(peer.At, params)
	if err != nil {
		return nil, err
	}
	return &destination{Dest: dest, ud: ud, responder: peer.Responder}, nil
}

// close closes the address handle. An error means that the device is lost, which polling it reports.
func (t *destination) close() {
	if t != nil {
		_ = t.AH.Close()
	}
}

// forgetDestination makes the next datagram to a peer resolve its address again.
func (e *endpoint) forgetDestination() {
	e.dest.close()
	e.dest = nil
}

// forgetConnected forgets the destinations of all connected peers, which are sent no datagrams. Devices have a limited number of
// address handles.
func (d *domain) forgetConnected() {
	for _, e := range d.eps {
		if e != nil && e.conn.State == cm.StateEstablished {
			e.forgetDestination()
		}
	}
}

// renewAddress takes the address in a datagram of a peer if it is later than the one that is known.
func (d *domain) renewAddress(e *endpoint, encoded []byte) {
	revision, ok := cm.Revision(encoded)
	if !ok || int16(revision-e.addr.Revision) <= 0 {
		return
	}
	a, err := cm.ParseAddress(encoded)
	if err != nil || a.Incarnation != e.addr.Incarnation || d.checkReachable(a) != nil {
		return
	}
	e.addr = a
	e.forgetDestination()
}

// renewAfterSilence is called when a peer has answered no probe for some intervals in a row. After 1, 2, 4 and so on it renews
// what is known of the network.
func (d *domain) renewAfterSilence(e *endpoint, intervals int) {
	if intervals&(intervals-1) != 0 {
		return
	}
	if e.dest != nil {
		e.dest.stale = true
	}
	d.refreshAfterSilence(intervals)
}

// refreshAfterSilence queries the own ports when a peer was silent for 1, 2, 4 and so on intervals in a row.
func (d *domain) refreshAfterSilence(intervals int) {
	now := d.clock.Now
	if intervals&(intervals-1) == 0 && (now-d.refreshedAt >= d.liveness.Interval || d.refreshedAt == 0) { // many may be silent
		d.refreshedAt = now
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
		if e.dest != nil {
			e.dest.stale = true
		}
		if e.resolution != nil {
			e.resolution.outdated = true
		}
		e.keepalive.Probe = true
	}
}

// errAddressChanged is why connections are made again.
var errAddressChanged = errors.New("fabric/rdma: the address of the local port has changed")

// refreshAddress queries the ports. If LID, GID, MTU or the indices of partition keys have changed, it renews everything that
// depends on them: the queue pairs for datagrams, the handles, and the address that peers are sent. It is called when a device
// reports such a change, and when a peer does not answer.
func (d *domain) refreshAddress() {
	var changed devices.Change
	for i, r := range d.rails {
		c := r.Refresh()
		changed.Any, changed.Moved = changed.Any || c.Any, changed.Moved || c.Moved
		changed.Indices = changed.Indices || c.Indices && i == 0 // other rails have no queue pairs for datagrams to restart
	}
	if !changed.Any {
		return
	}
	d.revision++
	d.present = d.encodeAddress()
	d.responder.readdress(d.present, d.rails[0].Indices(), changed.Indices)
	if changed.Indices {
		d.cm.failed, d.clock.Next = true, 0
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

// encodeAddress returns the present address of the domain.
func (d *domain) encodeAddress() []byte {
	a := cm.Address{Incarnation: d.incarnation, Revision: d.revision, Link: d.link}
	for _, r := range d.rails {
		a.Rails = append(a.Rails, r.RailAddress(d.responder.qps))
	}
	return a.Append(nil)
}
