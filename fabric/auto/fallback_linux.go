package auto

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/internal/transports"
)

// fallback makes pairs of processes use the RDMA devices of the next subnet that both have, or else TCP, if their devices do not
// reach each other although their addresses say so: because of VLANs, partitions, firewalls or routes.
//
// A process whose connection requests over RDMA are not answered asks the peer over TCP. A peer that computes, or is stopped,
// answers neither. A peer that polls answers both: it handles all that has arrived over RDMA before it answers. So if the peer
// has answered maxRounds questions over TCP, and between them not one of several requests over RDMA, the devices do not reach
// each other. The process then keeps the peer from being connected by them, and proposes to give them up. The peer does the same,
// and agrees. If both propose, that counts as agreement. No message was taken by either side before: a domain takes none until it
// is connected. Both then choose again, without the devices that were given up, until none are left.
//
// The same holds if one of the two devices refuses the connection, or is lost before they were connected. Then a few requests
// suffice. Peers that were connected over a device that is lost are moved by handovers. So is a peer that proposes although this
// process considers it connected: the first message over the connection has not reached it.
//
// The messages of this protocol are control messages over TCP, see controlMessage.
type fallback struct {
	d       *combined
	tcp     int              // index of the part
	rdma    []*rdma.Takeover // of the parts that are domains of package rdma
	tag     [tagBytes]byte
	watched time.Time     // when the peers that do not answer were looked at last
	pairs   map[int]*pair // by peer: those with a question, or with control messages to send
	due     []question    // to be answered
	given   map[int]uint8 // by peer: how many pairs of devices were agreed to be given up
	overTCP map[int]bool  // peers that were agreed to be reached over TCP, since no devices are left
	// contacted has the peers with which control messages were exchanged. While they are reached over RDMA, the loss of their TCP
	// connection is not reported.
	contacted map[int]bool
	tcpAddr   map[int][]byte        // of peers that are reached over RDMA; nil if address does not know it
	address   func(peer int) []byte // Node.Address
	handovers handovers             // of peers that were connected
}

// takeoverOf returns the Takeover of a domain of package rdma, and nil for any other domain.
func takeoverOf(d fabric.Domain) *rdma.Takeover {
	if r, ok := d.(interface{ Takeover() *rdma.Takeover }); ok {
		return r.Takeover()
	}
	return nil
}

// question is a question of a peer.
type question struct {
	peer  int
	given uint8
	rdma  *rdma.Takeover // of the domain by which the peer connects; nil if that is not over RDMA
}

// pair is the state for a peer that is asked.
type pair struct {
	attempt  rdma.Attempt   // as of the last look
	rdma     *rdma.Takeover // of the domain that connects
	seen     bool           // the attempt goes on
	reason   string         // why the device of the peer refuses, from its last answer; empty if it does not say
	asked    bool           // a question is unanswered
	proposed bool
	failed   bool     // the peer is not reached over TCP either
	rounds   int      // answers so far
	base     int      // requests over RDMA before the last answer
	out      [][]byte // control messages to send
}

const (
	maxRounds        = 3
	requestsPerRound = 5 // between two questions. The intervals between requests begin with 10 ms and double.
	watchInterval    = 2 * time.Millisecond
)

// newFallback returns nil unless there are parts for RDMA and one for TCP.
func newFallback(d *combined, n *Node) *fallback {
	f := &fallback{d: d, tcp: -1, tag: controlTag(n.Key), address: n.Address, pairs: map[int]*pair{}, overTCP: map[int]bool{},
		contacted: map[int]bool{}, tcpAddr: map[int][]byte{}, given: map[int]uint8{}}
	f.handovers = handovers{f: f, moves: map[int]*move{}}
	for i, p := range d.parts {
		if r := takeoverOf(p.Domain); r != nil {
			f.rdma = append(f.rdma, r)
		} else if p.name == transports.TCP.String() {
			f.tcp = i
		}
	}
	if len(f.rdma) == 0 || f.tcp < 0 {
		return nil
	}
	for _, r := range f.rdma {
		r.Await()
	}
	return f
}

// reaches reports whether it was agreed to reach a peer over TCP.
func (f *fallback) reaches(peer int) bool { return f != nil && f.overTCP[peer] }

// givenUp returns how many pairs of devices were agreed to be given up for a peer.
func (f *fallback) givenUp(peer int) uint8 {
	if f == nil {
		return 0
	}
	return f.given[peer]
}

// givenUpByUser is givenUp as the user knows it: a peer that is being moved is still reached over what is left.
func (f *fallback) givenUpByUser(peer int) uint8 {
	if f == nil {
		return 0
	}
	if m := f.handovers.moves[peer]; m != nil {
		return m.given
	}
	return f.given[peer]
}

// learn records the TCP address of a peer.
func (f *fallback) learn(peer int, addr []byte) {
	addrs, err := parseAddresses(addr)
	if i := slices.IndexFunc(addrs, func(a transportAddr) bool { return a.name == transports.TCP.String() }); err == nil && i >= 0 {
		f.tcpAddr[peer] = slices.Clone(addrs[i].addr)
	}
}

// active reports whether a peer is asked, or has asked. Then each Poll polls all parts.
func (f *fallback) active() bool {
	return f != nil && (len(f.due) > 0 || len(f.pairs) > 0 || f.moving())
}

// moving reports whether a peer that was connected is moved to another transport, or the user is to be told that it was.
func (f *fallback) moving() bool {
	return f != nil && (len(f.handovers.moves) > 0 || len(f.handovers.ready) > 0)
}

// isControl reports whether a message begins like a control message.
func (f *fallback) isControl(b []byte) bool { return len(b) > tagBytes && [tagBytes]byte(b) == f.tag }

// fullPoll makes the RDMA parts handle all that has arrived in their next Poll. It returns how many of the questions that are due
// can be answered after that.
func (f *fallback) fullPoll() int {
	if f == nil {
		return 0
	}
	if len(f.due) > 0 {
		for _, r := range f.rdma {
			r.FullPoll()
		}
	}
	return len(f.due)
}

// progress answers questions, and looks for peers that do not answer. It is called when all parts were polled.
func (f *fallback) progress(answers int) {
	for _, q := range f.due[:answers] {
		f.queue(q.peer, control{controlAnswer, q.given, []byte(q.refusal())})
	}
	f.due = slices.Delete(f.due, 0, answers)
	f.handovers.progress()
	if !f.active() && !f.connecting() {
		return // also no clock is read
	}
	if now := time.Now(); now.Sub(f.watched) >= watchInterval {
		f.watched = now
		f.watch()
	}
	f.flush()
}

// connecting reports whether an RDMA part tries to connect to a peer.
func (f *fallback) connecting() bool {
	return slices.ContainsFunc(f.rdma, func(r *rdma.Takeover) bool { return r.Connecting() })
}

// watch looks for peers that have not answered connection requests over RDMA.
func (f *fallback) watch() {
	for _, p := range f.pairs {
		p.seen = p.rdma == nil
	}
	for _, r := range f.rdma {
		r.Attempts(func(peer int, a rdma.Attempt) { f.unanswered(r, peer, a) })
	}
	for peer, p := range f.pairs {
		switch {
		case len(p.out) > 0 && (p.rdma == nil || f.overTCP[peer]): // the peer waits for these
		case p.seen && p.rdma != nil, p.proposed:
		default:
			delete(f.pairs, peer) // it was connected, lost or only answered
		}
	}
}

// unanswered takes the next step for a peer that has not answered connection requests over RDMA.
func (f *fallback) unanswered(r *rdma.Takeover, peer int, a rdma.Attempt) {
	if p := f.pairs[peer]; a.Heard && (p == nil || !p.proposed) {
		r.ConfirmAlive(peer, false)
		return
	}
	p := f.pair(peer)
	p.seen, p.rdma, p.attempt = true, r, a
	switch {
	case p.asked || p.proposed || p.failed:
	case p.rounds == maxRounds:
		if r.Hold(peer, true) {
			p.proposed = true
			f.send(peer, controlPropose)
		}
	case p.rounds == 0 || a.Requests-p.base >= requestsPerRound || a.Err != nil && a.Requests > p.base:
		p.asked = true
		f.send(peer, controlAsk)
	}
}

// pair returns the state for a peer.
func (f *fallback) pair(peer int) *pair {
	p := f.pairs[peer]
	if p == nil {
		p = new(pair)
		f.pairs[peer] = p
	}
	return p
}

// send queues a control message about the devices that are in use, and sends it if possible.
func (f *fallback) send(peer int, kind controlKind) {
	f.queue(peer, control{kind, f.given[peer], f.d.addr})
}

// queue queues a control message, and sends it if possible.
func (f *fallback) queue(peer int, c control) {
	p := f.pair(peer)
	p.out = append(p.out, c.append(nil, f.tag))
	f.contacted[peer] = true
	f.flushPair(peer, p)
}

// refusal returns why the device to which the peer connects cannot connect or answer; empty if it can, or that is not known.
func (q *question) refusal() string {
	if q.rdma == nil {
		return ""
	}
	if err := q.rdma.Refusal(q.peer); err != nil {
		return err.Error()
	}
	return ""
}

// question returns the question in a control message. The address in it says by which devices the peer connects, which this
// process may not know otherwise.
func (f *fallback) question(peer int, m *control) question {
	q := question{peer: peer, given: m.given}
	if c, err := f.d.chooseAfter(peer, m.addr, m.given); err == nil {
		q.rdma = takeoverOf(f.d.parts[c.part].Domain)
	}
	return q
}

// flush sends queued control messages.
func (f *fallback) flush() {
	for peer, p := range f.pairs {
		f.flushPair(peer, p)
	}
}

func (f *fallback) flushPair(peer int, p *pair) {
	for len(p.out) > 0 && !p.failed {
		err := f.sendControl(peer, p.out[0])
		switch {
		case err == fabric.ErrAgain:
			return
		case err != nil:
			f.fail(peer, p)
			return
		}
		p.out = p.out[1:]
		if p.rdma != nil {
			p.rdma.ConfirmAlive(peer, true) // the process has accepted the connection; TCP reports its end
		}
	}
}

// sendControl sends a control message.
func (f *fallback) sendControl(peer int, b []byte) error {
	addr, asked := f.tcpAddr[peer]
	if !asked && f.address != nil { // the peer has connected, and this process has not
		f.tcpAddr[peer] = nil
		f.learn(peer, f.address(peer))
		addr = f.tcpAddr[peer]
	}
	ep, err := f.d.parts[f.tcp].Connect(peer, addr)
	if err != nil && addr == nil {
		return fmt.Errorf("its TCP address is not known: %w", err)
	}
	if err != nil {
		return err
	}
	return ep.Send(b, nil)
}

// fail gives up asking a peer. RDMA finds whether its process exists.
func (f *fallback) fail(peer int, p *pair) {
	p.failed, p.out = true, nil
	if p.rdma != nil {
		p.rdma.ConfirmAlive(peer, false)
	}
}

// filter takes the control messages out of the events of the TCP part, and returns how many events are left.
func (f *fallback) filter(evs []fabric.Event) int {
	n := 0
	for i := range evs {
		if f.keep(&evs[i]) {
			if n != i {
				evs[n] = evs[i]
			}
			n++
		}
	}
	return n
}

// keep handles an event of the TCP part. It returns false if the event is not for the caller of Poll. It changes a control
// message that changes the route of a connected peer into the event Rerouted.
func (f *fallback) keep(ev *fabric.Event) bool {
	peer := int(ev.Peer)
	switch {
	case ev.Kind == fabric.Message && f.isControl(ev.Data):
		if ev.Data[tagBytes] == byte(controlEnd) {
			return f.handovers.end(ev)
		}
		if !f.handle(peer, ev.Data) || f.d.partOf[peer] < 0 || f.handovers.moves[peer] != nil {
			return false
		}
		f.d.partOf[peer] = -1
		*ev = fabric.Event{Kind: fabric.Rerouted, Peer: ev.Peer}
	case ev.Kind == fabric.PeerDown && f.handovers.peerDown(ev):
	case ev.Kind == fabric.PeerDown && f.contacted[peer] && !f.overTCP[peer]:
		p := f.pairs[peer]
		if p != nil && p.proposed { // the peer may have agreed, so its loss is that of the pair
			p.rdma.Abandon(peer)
			return true
		}
		if p != nil {
			f.fail(peer, p)
		}
		return false
	}
	return true
}

// handle acts on a control message. It returns true if the peer is reached in another way from now on.
func (f *fallback) handle(peer int, b []byte) bool {
	m, err := parseControl(b, f.tag)
	if err != nil || f.overTCP[peer] {
		return false
	}
	f.contacted[peer] = true
	if m.kind == controlAsk {
		f.learn(peer, m.addr)
		if q := f.question(peer, &m); !slices.Contains(f.due, q) {
			f.due = append(f.due, q)
		}
		return false
	}
	p := f.pairs[peer]
	if m.given != f.given[peer] { // about devices that were given up meanwhile
		return false
	}
	switch m.kind {
	case controlMove:
		f.handovers.receive(peer, m)
	case controlAnswer:
		if p != nil && p.asked {
			p.asked, p.base, p.reason = false, p.attempt.Requests, printable.Line(string(m.addr))
			p.rounds++
			p.rdma.Retry(peer)
		}
	case controlPropose:
		f.learn(peer, m.addr)
		return f.accept(peer, m.addr)
	case controlAgree:
		if p != nil && p.proposed {
			f.change(peer, m.addr, p.rdma, true)
			return true
		}
	case controlRefuse:
		if p != nil && p.proposed {
			p.rdma.Hold(peer, false)
			f.fail(peer, p)
			p.proposed = false
		}
	}
	return false
}

// accept accepts a proposal, unless the peer is connected already.
func (f *fallback) accept(peer int, addr []byte) bool {
	if p := f.pairs[peer]; p != nil && p.proposed { // so has the peer
		f.change(peer, addr, p.rdma, f.d.self < peer)
		return true
	}
	c, err := f.d.choose(peer, addr)
	if err != nil {
		return false // the address is malformed
	}
	if m := f.handovers.moves[peer]; m != nil && m.from != nil {
		return false // MOVE answers it
	}
	r := takeoverOf(f.d.parts[c.part].Domain)
	if r == nil {
		f.send(peer, controlRefuse)
		return false
	}
	if !r.Hold(peer, true) { // it is connected, which the peer does not know and cannot find out
		f.handovers.accept(r, peer, addr)
		return false
	}
	f.send(peer, controlAgree)
	f.change(peer, addr, r, false)
	return true
}

// change gives up the devices by which a peer with this address would be reached. Those of the next subnet are used from now on,
// or TCP. Of two processes, only one explains it.
func (f *fallback) change(peer int, addr []byte, r *rdma.Takeover, explain bool) {
	r.Abandon(peer)
	f.given[peer]++
	next, err := f.d.choose(peer, addr)
	f.overTCP[peer] = err != nil || f.d.parts[next.part].compare == nil
	p := f.pair(peer)
	if explain {
		f.explain(peer, p)
	}
	*p = pair{out: p.out, failed: p.failed}
}

// explain reports why devices were given up.
func (f *fallback) explain(peer int, p *pair) {
	instead := "another RDMA subnet is used"
	if f.overTCP[peer] {
		instead = "TCP is used instead of RDMA"
	}
	a, why := p.attempt, cmp.Or(p.attempt.Err, errUnanswered)
	if p.reason != "" && (a.Err == nil || a.Rejected) {
		why = fmt.Errorf("the peer says: %s", p.reason)
	}
	f.d.report(peer, fmt.Sprintf("%s to process %d, which answers over TCP: %d connection requests by %s in %v: %v", instead, peer,
		a.Requests, p.rdma.PathTo(peer), a.Elapsed.Round(10*time.Millisecond), why))
}
