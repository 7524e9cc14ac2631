package rdma

import (
	"errors"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/fabric/rdma/internal/sleep"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/verbs"
)

var _ fabric.Domain = (*domain)(nil)

// domain is one process's membership. It consists of completions (what has arrived, and what was
// carried out), connManager (connections to peers), Takeover (peers that another transport takes
// over), and parts from the packages in internal. A field belongs to the goroutine that calls the
// methods of [fabric.Domain], unless its comment says that it is atomic or guarded by poster.Mu.
type domain struct {
	// These are constant once the domain is open.
	self, size int
	settings   Settings
	addr       []byte // as published
	caps       fabric.Caps
	rails      []*rail
	// closeTimeout is the constant of that name. Tests whose peers do not answer within it set another one.
	closeTimeout time.Duration

	eps         peers
	recvs       messages.Receives
	regions     transfer.Regions
	sleeper     sleep.Sleeper
	retransmits uint64 // messages sent again over a new connection; devices do not report their own retransmissions

	// Every Poll reads some of these.
	stopped     bool // closed, or the device is lost
	closed      bool
	clock       liveness.Clock
	completions completions
	events      messages.Events
	controlDue  []*endpoint // are owed a credit update or the RTU, which could not be sent yet
	cm          connManager
	keepalives  liveness.Ring[*endpoint]
	liveness    liveness.Limits // constant

	deviceEvents devices.Events
	takeover     Takeover

	// poster posts requests. Read and Write do so in any goroutine. Its lock also guards connManager.requested, and the fields of
	// endpoints of which that is said.
	poster posting.Poster
}

// endReason is the error that every call on an endpoint returns once it has ended.
type endReason struct{ err error }

var (
	errDomainClosed   = endReason{fmt.Errorf("fabric/rdma: domain: %w", fabric.ErrClosed)}
	errEndpointClosed = endReason{fmt.Errorf("fabric/rdma: endpoint: %w", fabric.ErrClosed)}
)

func (d *domain) Addr() []byte { return d.addr }

func (d *domain) Caps() fabric.Caps { return d.caps }

// Retransmits returns the number of messages that were sent again over a new connection. Retransmissions by devices are not
// counted, because devices do not report them.
func (d *domain) Retransmits() uint64 { return d.retransmits }

// Takeover returns the part of the domain that moves peers to another transport. Callers find this
// method by type assertion.
func (d *domain) Takeover() *Takeover { return &d.takeover }

// Settings returns the settings in force, with the devices that were chosen. Callers find this method by type assertion.
func (d *domain) Settings() Settings {
	s := d.settings
	s.Piece = d.rails[0].room.Piece
	return s
}

func (d *domain) Register(b []byte) (fabric.Region, error) {
	if d.closed {
		return fabric.Region{}, errDomainClosed.err
	}
	r, err := d.regions.Add(b)
	if err != nil && (d.takeover.lost != nil || errors.Is(err, verbs.ErrDeviceLost)) { // another domain takes over, see handover.go
		err = fmt.Errorf("%w: %w", fabric.ErrNotSupported, err)
	}
	return r, err
}

func (d *domain) Deregister(r fabric.Region) error {
	if d.closed {
		return errDomainClosed.err
	}
	return d.regions.Remove(r.Local)
}

func (d *domain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	if d.closed {
		return nil, errDomainClosed.err
	}
	if peer < 0 || peer >= d.size {
		return nil, fmt.Errorf("fabric/rdma: connect: peer %d is out of range: there are peers 0 to %d", peer, d.size-1)
	}
	if e := d.eps[peer]; e != nil && e.addr.Rails != nil {
		return e, nil
	}
	a, err := cm.ParseAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("fabric/rdma: connect to peer %d: %w", peer, err)
	}
	if err := exported(d.cm.CheckPaths(&a)); err != nil {
		return nil, fmt.Errorf("fabric/rdma: connect to peer %d: %w", peer, err)
	}
	if d.takeover.lost != nil && !d.takeover.awaited {
		return nil, fmt.Errorf("fabric/rdma: connect to peer %d: %w: %w", peer, fabric.ErrPeerDown, d.takeover.lost)
	}
	e := d.endpointOf(peer)
	e.addr.Address, e.conn.PeerIncarnation = a, a.Incarnation
	return e, nil
}

// endpointOf returns the endpoint of a peer. It creates the endpoint if there is none.
func (d *domain) endpointOf(peer int) *endpoint {
	e := d.eps[peer]
	if e == nil {
		e = &endpoint{d: d, peer: peer, msgs: messages.Peer{Number: int32(peer)}}
		e.conn = cm.Handshake{Self: uint32(d.self), Peer: uint32(peer), SelfIncarnation: d.cm.Incarnation}
		d.eps[peer] = e
	}
	return e
}
