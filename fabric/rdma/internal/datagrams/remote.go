package datagrams

import (
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
)

// Remote is a peer as datagrams reach it. Mind its size: there is one for each peer. It must not be
// copied while it has a destination.
type Remote struct {
	cm.Address              // without rails until it is known
	dest       *Destination // nil until a datagram is sent, and after an address has changed
	resolution *resolution  // of dest, while it is being made
}

// Forget makes the next datagram to the peer resolve its address again.
func (r *Remote) Forget() {
	r.dest.close()
	r.dest = nil
}

// take takes the encoded address of a peer if it is later than the one that is known, and can be
// reached from our rails.
func (r *Remote) take(encoded []byte, rails devices.Rails) {
	revision, ok := cm.Revision(encoded)
	if !ok || int16(revision-r.Revision) <= 0 {
		return
	}
	a, err := cm.ParseAddress(encoded)
	if err != nil || a.Incarnation != r.Incarnation || rails.CheckPaths(&a) != nil {
		return
	}
	r.Address = a
	r.Forget()
}

// Renew makes the next datagram to the peer renew the destination, if possible. It is called when
// the peer is silent.
func (r *Remote) Renew() {
	if r.dest != nil {
		r.dest.stale = true
	}
}

// Outdate is Renew for a change that a device has reported: a destination that is being made is to
// be renewed as well.
func (r *Remote) Outdate() {
	r.Renew()
	if r.resolution != nil {
		r.resolution.outdated = true
	}
}

// IsStale reports whether the destination is to be renewed.
func (r *Remote) IsStale() bool { return r.dest != nil && r.dest.stale }

// IsResolving reports whether a destination is being made, or is to be made.
func (r *Remote) IsResolving() bool { return r.resolution != nil }

// IsWaiting reports whether a destination is to be made, and the call for it was not made yet.
func (r *Remote) IsWaiting() bool { return r.resolution != nil && !r.resolution.begun }
