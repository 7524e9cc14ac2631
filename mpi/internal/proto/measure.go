package proto

import (
	"time"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/cost"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// The sender of long messages measures them, where the transport asks for it
// (fabric.Caps.MaxStream), and chooses their protocols by package cost, which says how the two
// sides measure.

// measuredProtocol returns the protocol of a message of n bytes that may be measured, and its
// marks: none if it is not to be. first is what the lengths suggest. fragments says that these are
// allowed.
func (p *peer) measuredProtocol(n int, first protocols.Protocol, fragments bool) (_ protocols.Protocol, marks uint64) {
	possible := cost.SetOf(protocols.RendezvousRead)
	if p.path.cooperative && n >= protocols.MinShared {
		possible |= cost.SetOf(protocols.RendezvousShared)
	}
	if fragments && n <= p.path.thresholds.MaxStream {
		possible |= cost.SetOf(protocols.Fragmented)
	}
	if p.measured == nil {
		p.measured = new(cost.Peer)
	}
	return p.measured.Choose(n, first, possible, p.link.Received())
}

// sentPart is cost.Peer.Sent for a peer to which another domain may have taken over meanwhile.
func (p *peer) sentPart(n int, marks uint64, protocol protocols.Protocol, spent, first time.Duration, bytes int) {
	if p.measured != nil {
		p.measured.Sent(n, marks, protocol, spent, first, bytes)
	}
}

// reportElapsed reports the times of a message of n bytes that is complete. id is that of the
// sender's request if it waits for this process. The report is dropped unless it can be sent at
// once: it is no more than advice, and the peer may have left.
func (l *links) reportElapsed(x *cost.Elapsed, peer int32, n int, protocol protocols.Protocol, id uint64) {
	p := l.peer(peer)
	if x.Marks == 0 || x.Moved == 0 || p.ep == nil || p.head != nil || p.finalized != nil || p.announced || p.refuses {
		return
	}
	whole := uint64(0)
	switch {
	case x.Began == 0:
	case protocol == protocols.Fragmented:
		whole = uint64(l.now() - x.Began)
	default:
		whole = id
	}
	h, end := wire.Header(wire.Envelope{Kind: wire.Elapsed}, uint64(n)|x.Marks, uint64(protocol),
		uint64(max(x.Spent, 1)), uint64(x.Moved), whole)
	_ = p.ep.Send(h[:end], nil) // if the peer is lost an event follows
}

// handleElapsed handles Elapsed: what the receiver of a message from this process has measured.
func (x *sends) handleElapsed(peer int32, w [5]uint64) bool {
	n, protocol, spent, moved := w[0]&^cost.AllMarks, protocols.Protocol(w[1]), time.Duration(w[2]), w[3]
	if w[0]&cost.Timed == 0 || n > maxBytes || w[1] >= uint64(protocols.Count) || !cost.Measurable.Has(protocol) || spent <= 0 ||
		moved == 0 || moved > n {
		return false
	}
	whole := time.Duration(w[4])
	if protocol != protocols.Fragmented {
		whole = 0
		r := x.requests.byID(w[4])
		if r != nil && r.awaitsPeer(peer) && r.out.kind() == wire.RTS && r.transfer.elapsed.Marks == w[0]&cost.AllMarks {
			whole = x.links.now() - r.transfer.elapsed.Began
		}
	}
	if m := x.links.peer(peer).measured; m != nil { // nil: another domain has taken over meanwhile
		m.Received(int(n), w[0], protocol, spent, whole, int(moved))
	}
	return true
}
