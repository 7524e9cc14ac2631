package auto

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma"
)

// handovers moves pairs of processes that were connected over RDMA to the RDMA devices of the next subnet that both have, or else
// to TCP, when the devices in use cannot continue: because one of them is lost, or because the connection was not made again in
// time. No message is lost, received twice, or received out of order.
//
//  1. A domain that cannot continue closes its side of the connection for good, and Poll delivers what has arrived (package rdma,
//     handover.go). Only then is it final how many messages of the peer were received.
//  2. The process sends MOVE over TCP, with this number. The peer does the same: on its own account, or because MOVE has arrived.
//     There is no refusal, because the sender of MOVE cannot go back.
//  3. A process that has sent and received MOVE knows which of its messages the peer has not received. It sends them over the new
//     transport, in order, and then END over the same transport.
//  4. A process that has sent and received END reports the event Rerouted to its user, at the place of END among the messages.
//
// Three properties make this safe:
//
//   - The numbers in MOVE are final, so both sides draw the same conclusion from them. If a message is nowhere (rdma.Handover),
//     both lose the peer.
//   - The peer sends nothing over the new transport before it has received MOVE. MOVE is sent when the user has got everything
//     that arrived over the old one. So the user gets the messages in order.
//   - Until Rerouted, the user sends nothing: Send returns ErrAgain. So in both directions the event separates the messages that
//     may name memory registered with the old domain from those that name memory registered with the new one.
//
// The new transport may fail in the same way before all is sent. Then the same happens again, with what the peer has not received
// over it, and after that what was not sent over it. MOVE and END carry the number of pairs of devices that were given up, so an
// END that was sent again is recognized: it is of no use.
//
// If TCP does not reach the peer, the peer is lost, as it is without TCP.
type handovers struct {
	f     *fallback
	moves map[int]*move  // by peer
	ready []fabric.Event // to be returned by the next Poll, before those of the parts
}

// move is the state for a peer.
type move struct {
	from   *rdma.Takeover // of the domain that is left; nil once the next transport was agreed on
	err    error          // why; nil if only the peer knows
	sent   bool           // MOVE was sent or is in control
	mine   rdma.Handover
	theirs *handover        // from MOVE; nil until it arrives
	addr   []byte           // of the peer
	given  uint8            // how many pairs of devices were given up when the peer began to be moved
	old    []*rdma.Takeover // of the domains that were left. The user may still have an endpoint of one.

	control  [][]byte // control messages to send over TCP
	messages [][]byte // to send over the next transport
	ended    bool     // END was sent
	// peerEnded is the number of pairs of devices that were given up, from the last END of the peer. 0: there was none.
	peerEnded uint8
}

// closeTimeout is how long Close waits for peers that are being moved.
const closeTimeout = 5 * time.Second

var errGap = errors.New("a message that its device has acknowledged is lost with the device")

// progress takes the next steps for all peers.
func (h *handovers) progress() {
	for _, r := range h.f.rdma {
		r.Leaving(func(peer int, err error) { h.begin(r, peer, err) })
	}
	for peer, m := range h.moves {
		h.step(peer, m)
	}
}

// begin begins to move a peer, unless that has begun.
func (h *handovers) begin(r *rdma.Takeover, peer int, err error) *move {
	m := h.moves[peer]
	if m == nil {
		m = &move{given: h.f.given[peer]}
		h.moves[peer] = m
	}
	if m.from == r || slices.Contains(m.old, r) {
		return m
	}
	m.from, m.err, m.sent, m.theirs, m.ended = r, err, false, nil, false
	return m
}

// step takes the next steps for a peer.
func (h *handovers) step(peer int, m *move) {
	f := h.f
	if m.from != nil && !m.sent {
		mine, ok := m.from.Left(peer)
		if !ok {
			return
		}
		m.mine, m.sent = mine, true
		b := (&handover{mine.Received, mine.Kept, m.err != nil, f.d.addr}).append(nil)
		m.control = append(m.control, (&control{controlMove, f.given[peer], b}).append(nil, f.tag))
	}
	if !h.sendControl(peer, m) {
		return
	}
	if m.from != nil && m.theirs != nil && !h.agree(peer, m) {
		return
	}
	if m.from == nil && !m.ended {
		h.resend(peer, m)
	}
	if h.isComplete(peer, m) {
		h.ready = append(h.ready, h.reroute(peer, m))
	}
}

// sendControl sends control messages over TCP. It returns false if the peer is lost.
func (h *handovers) sendControl(peer int, m *move) bool {
	f := h.f
	for len(m.control) > 0 {
		f.contacted[peer] = true
		err := f.sendControl(peer, m.control[0])
		if err == fabric.ErrAgain {
			return true
		}
		if err != nil {
			h.lose(peer, m, err)
			return false
		}
		m.control = m.control[1:]
	}
	return true
}

// receive handles MOVE. It returns false if the message is malformed.
func (h *handovers) receive(peer int, c control) bool {
	f := h.f
	t, err := parseHandover(c.addr)
	if err != nil {
		return false
	}
	t.addr = slices.Clone(t.addr)
	f.learn(peer, t.addr)
	m := h.moves[peer]
	if m == nil || m.from == nil {
		next, err := f.d.choose(peer, t.addr)
		if err != nil {
			return false
		}
		r := takeoverOf(f.d.parts[next.part].Domain)
		if r == nil || !r.Leave(peer) {
			return false // the peer was lost before, and the user knows
		}
		m = h.begin(r, peer, nil)
	}
	if p := f.pairs[peer]; p != nil { // a proposal is of no use any more
		if p.proposed && m.err == nil {
			m.err = cmp.Or(p.attempt.Err, errUnanswered)
		}
		*p = pair{out: p.out, failed: p.failed}
	}
	m.theirs, m.addr = &t, t.addr
	return true
}

// accept moves a peer that proposes to give up devices although it is connected by them: the first message over the connection
// has not reached it.
func (h *handovers) accept(r *rdma.Takeover, peer int, addr []byte) {
	if r.Leave(peer) {
		h.begin(r, peer, nil).addr = slices.Clone(addr)
	}
}

// agree ends the use of the devices that are left. It returns false if a message is lost with them, so that the peer is lost.
func (h *handovers) agree(peer int, m *move) bool {
	f, theirs := h.f, m.theirs
	if int32(theirs.received-m.mine.Kept) < 0 || int32(m.mine.Received-theirs.kept) < 0 {
		h.lose(peer, m, errGap)
		return false
	}
	if int32(theirs.received-m.mine.Sent) > 0 {
		h.lose(peer, m, fmt.Errorf("%w: it has received message %d of %d", fabric.ErrCorrupt, theirs.received, m.mine.Sent))
		return false
	}
	m.messages = append(m.from.Unreceived(peer, theirs.received), m.messages...)
	path := m.from.PathTo(peer)
	m.old, m.from = append(m.old, m.from), nil
	f.given[peer]++
	next, err := f.d.choose(peer, m.addr)
	f.overTCP[peer] = err != nil || f.d.parts[next.part].compare == nil
	if m.err != nil && (!theirs.noticed || f.d.self < peer) {
		instead := "another RDMA subnet is"
		if f.overTCP[peer] {
			instead = "TCP is"
		}
		f.d.report(peer, fmt.Sprintf("%s used instead of RDMA to process %d from now on, in place of %s: %v", instead, peer, path,
			m.err))
	}
	return true
}

// resend sends the messages that the peer has not received, and then END.
func (h *handovers) resend(peer int, m *move) {
	f := h.f
	next, err := f.d.choose(peer, m.addr)
	if err != nil {
		h.lose(peer, m, err)
		return
	}
	part := f.d.parts[next.part]
	ep, err := part.Connect(peer, next.at)
	for ; err == nil && !m.ended; m.messages = m.messages[min(1, len(m.messages)):] {
		end := len(m.messages) == 0
		var b []byte
		if end {
			b = (&control{controlEnd, f.given[peer], nil}).append(nil, f.tag)
		} else if b = m.messages[0]; len(b) > part.Caps().MaxSend {
			err = fmt.Errorf("%w: a message of %d bytes is longer than the limit of %d", fabric.ErrNotSupported, len(b),
				part.Caps().MaxSend)
			break
		}
		if err = ep.Send(b, nil); err != nil {
			break
		}
		m.ended = end
	}
	if err != nil && err != fabric.ErrAgain && !errors.Is(err, fabric.ErrPeerDown) { // an event reports the loss of the peer
		h.lose(peer, m, err)
	}
}

// isComplete reports whether END was sent and received.
func (h *handovers) isComplete(peer int, m *move) bool {
	return m.from == nil && m.ended && m.peerEnded == h.f.given[peer]
}

// reroute ends the move of a peer, and returns the event for the user.
func (h *handovers) reroute(peer int, m *move) fabric.Event {
	h.forget(peer, m)
	h.f.d.partOf[peer] = -1
	return fabric.Event{Kind: fabric.Rerouted, Peer: int32(peer)}
}

// forget forgets a peer that was moved or lost.
func (h *handovers) forget(peer int, m *move) {
	for _, r := range m.old {
		r.Abandon(peer)
	}
	if m.from != nil {
		m.from.Abandon(peer)
	}
	delete(h.moves, peer)
}

// lose reports that a peer is lost that cannot be moved.
func (h *handovers) lose(peer int, m *move, err error) {
	if m.err != nil {
		err = fmt.Errorf("%w: it cannot be reached in another way: %w", m.err, err)
	}
	h.forget(peer, m)
	err = fmt.Errorf("peer %d: %w: %w", peer, fabric.ErrPeerDown, err)
	h.ready = append(h.ready, fabric.Event{Kind: fabric.PeerDown, Peer: int32(peer), Err: err})
}

// filter takes END out of the events of a part for RDMA, or replaces it by Rerouted. It returns how many events are left.
func (h *handovers) filter(evs []fabric.Event) int {
	n := 0
	for _, ev := range evs {
		m := h.moves[int(ev.Peer)]
		switch {
		case ev.Kind == fabric.PeerDown && m != nil:
			h.forget(int(ev.Peer), m)
		case ev.Kind == fabric.Message && h.f.isControl(ev.Data):
			if !h.end(&ev) {
				continue
			}
		}
		evs[n] = ev
		n++
	}
	return n
}

// end handles END. It returns true if it has replaced it by Rerouted.
func (h *handovers) end(ev *fabric.Event) bool {
	peer := int(ev.Peer)
	c, err := parseControl(ev.Data, h.f.tag)
	m := h.moves[peer]
	if err != nil || c.kind != controlEnd || m == nil {
		return false
	}
	m.peerEnded = c.given
	if !h.isComplete(peer, m) {
		return false
	}
	*ev = h.reroute(peer, m)
	return true
}

// peerDown handles the loss of the TCP connection to a peer. It reports whether the peer is lost, because only TCP could tell how
// to reach it.
func (h *handovers) peerDown(ev *fabric.Event) bool {
	peer := int(ev.Peer)
	m := h.moves[peer]
	if m == nil || m.from == nil && !h.f.overTCP[peer] {
		return false
	}
	if h.forget(peer, m); m.err != nil {
		ev.Err = fmt.Errorf("%w, and before that: %w", ev.Err, m.err)
	}
	return true
}

// deliver fills evs with events that are ready, and returns their number.
func (h *handovers) deliver(evs []fabric.Event) int {
	if len(h.ready) == 0 {
		return 0
	}
	n := copy(evs, h.ready)
	h.ready = slices.Delete(h.ready, 0, n)
	return n
}

// finish blocks until no peer is being moved, or for closeTimeout. The peers would miss the messages that are to be sent again.
func (h *handovers) finish() {
	var evs [16]fabric.Event
	for end := time.Now().Add(closeTimeout); len(h.moves) > 0 && time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
		if _, err := h.f.d.Poll(evs[:]); err != nil {
			return
		}
	}
}
