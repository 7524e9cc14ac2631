package datagrams

import (
	"errors"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/verbs"
)

// Identity is what datagrams say of this process.
type Identity struct {
	Key         [32]byte // of the job
	Self, Size  uint32   // number of this process among those of the job, and how many there are
	Incarnation uint64   // a random number of the domain, never 0
}

// accepts reports whether a datagram is for this domain, and from another process of its job.
func (id *Identity) accepts(m *cm.Message) bool {
	return m.From < id.Size && m.From != id.Self && m.Size == id.Size && m.ToIncarnation == id.Incarnation
}

// Manager has all that sends and receives datagrams, and the address at which this process receives
// them.
type Manager struct {
	Identity
	Link      cm.Link // a part of the address
	Socket    Socket
	Resolver  Resolver
	Responder Responder

	rails       devices.Rails
	addr        []byte
	refreshedAt time.Duration // see RefreshDue
}

// Open opens the parts. Identity and Link must be set. wake and release are those of
// [Resolver.Open].
func (m *Manager) Open(rails devices.Rails, params verbs.Params, wake, release func()) error {
	m.rails = rails
	m.Resolver.Open(rails[0], params, wake, release)
	if err := errors.Join(m.Socket.Open(rails[0], m.Key), m.Responder.Open(rails[0], m.Identity, params)); err != nil {
		return err
	}
	return tryDestination(rails[0], m.Responder.qps, params)
}

// Start makes the Responder answer probes. Address returns the address from then on.
func (m *Manager) Start() {
	m.addr = m.encode()
	m.Responder.Start(m.addr)
}

// Close ends the goroutines and waits for them. It may be called without Open.
func (m *Manager) Close() {
	m.Responder.Close()
	m.Resolver.Close()
}

// Unmap frees the memory. The devices must be closed.
func (m *Manager) Unmap() {
	m.Socket.Unmap()
	m.Responder.Unmap()
}

// Send sends a datagram to a peer, which has a number. It may be lost, so its sender must be
// prepared to send it again. The error is that of [Resolver.Destination] or of [Socket.Send].
func (m *Manager) Send(peer int, r *Remote, msg *cm.Message) error {
	to, err := m.Resolver.Destination(peer, r)
	if err != nil {
		return err
	}
	return m.Socket.Send(to, msg)
}

// Next removes and returns the oldest datagram that has arrived for this process, nil if there is
// none.
func (m *Manager) Next() *cm.Message {
	for {
		msg := m.Socket.Next()
		if msg == nil || m.accepts(msg) {
			return msg
		}
	}
}

// Identify reports whether a datagram is of the process whose address r has. If none is known, it
// takes the one in the datagram, unless that cannot be reached.
func (m *Manager) Identify(r *Remote, msg *cm.Message) bool {
	if r.Rails == nil {
		a, err := cm.ParseAddress(msg.Address)
		if err != nil || a.Incarnation != msg.FromIncarnation || m.rails.CheckPaths(&a) != nil {
			return false
		}
		r.Address = a
	}
	return msg.FromIncarnation == r.Incarnation
}

// Renew takes the address in a datagram of a peer if it is later than the one that is known, and
// can be reached.
func (m *Manager) Renew(r *Remote, msg *cm.Message) {
	if !msg.Kind.HasReason() {
		r.take(msg.Address, m.rails)
	}
}

// CheckPaths returns an error if a peer cannot be reached. It may be a [*devices.PartitionError].
func (m *Manager) CheckPaths(peer *cm.Address) error { return m.rails.CheckPaths(peer) }

// Address returns our own encoded address, which the network may change. The caller must not modify
// it.
func (m *Manager) Address() []byte { return m.addr }

// encode returns the present address.
func (m *Manager) encode() []byte {
	a := cm.Address{Incarnation: m.Incarnation, Revision: m.Resolver.Revision, Link: m.Link}
	for _, r := range m.rails {
		a.Rails = append(a.Rails, r.RailAddress(m.Responder.qps))
	}
	return a.Append(nil)
}

// RefreshDue reports whether Refresh is to be called because a peer was silent for so many
// intervals in a row: after 1, 2, 4 and so on, and once in an interval if many peers are silent.
func (m *Manager) RefreshDue(now, interval time.Duration, intervals int) bool {
	if intervals&(intervals-1) != 0 || now-m.refreshedAt < interval && m.refreshedAt != 0 {
		return false
	}
	m.refreshedAt = now
	return true
}

// Refresh queries the ports. If LID, GID, MTU or the indices of partition keys have changed, it
// renews what depends on them: the address, the destinations, and the queue pairs for datagrams, of
// which Socket.Failed is set. The caller must make connections again if Moved is set.
func (m *Manager) Refresh() (changed devices.Change) {
	if changed = m.rails.Refresh(); !changed.Any {
		return changed
	}
	m.Resolver.Revision++
	m.addr = m.encode()
	m.Responder.Readdress(m.addr, m.rails[0].Indices(), changed.Indices)
	m.Socket.Failed = m.Socket.Failed || changed.Indices
	return changed
}
