package proto

import (
	"math/bits"
	"slices"
	"time"

	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// Which protocol is the fastest for a message that is longer than an eager one depends on the processor, on its caches, on the
// distance of the two cores and on where the data of the program is. So the sender measures the messages of the program, where
// the transport asks for it (fabric.Caps.MaxStream). Each protocol has a cost, and the one with the least cost is chosen.
//
// Messages overlap if several are on their way at once. The time that one of them takes then depends on the others. So the cost
// follows from the times in which the two sides copy:
//
//   - Fragments: the time of the slower side, because the sender copies into the transport while the receiver copies out of it.
//   - Read: the time of the receiver, and what a lone read takes besides its copy.
//   - Shared: the time in which both sides together copy the message, and the same addition.
//
// A message is lone if the receiver has sent something after each of the last two long messages. This is known only while
// messages are recorded. Otherwise all messages count as overlapping. The cost of a lone message is the time that it takes:
//
//   - Fragments: the time of the sender for the first fragment, and of the receiver from there to the end.
//   - Read, shared: the time of the sender from the RTS to the answer. It includes what else the program does meanwhile,
//     because a rendezvous needs the sender.
//
// The time of a lone message that was unexpected is not used.
//
// Lengths are divided into classes, two for each power of two. Each peer has two sets of classes: one for overlapping messages
// and one for lone ones. Each class has a choice of its own. The first 15 messages of a class try the protocols one after the
// other, beginning with that of Thresholds.Choose. In the long run at most one of a hundred messages tries another protocol, and
// the choice changes when that costs clearly less. A trial has several messages in a row, and the last ones are measured: a
// protocol reaches its speed only when it has moved the same buffers before.
//
// The first tries may be misleading, because a transport is slower while it touches memory for the first time, such as that of a
// ring that grows. So the first two trials of lone messages begin early, whatever these protocols have cost, and the third one
// begins later in return.
//
// The sender marks the messages that are to be measured, in the length of FIRST_FRAG and RTS. When the receiver has the payload
// it reports its times in ELAPSED. So the two sides need no common clock.
//
// The program sees only a different time: messages are matched in the order of their first headers, whatever their protocols.

const (
	firstTries = 5 // messages that try each protocol at first, so that three take 15 messages
	// One of trialInterval messages tries another protocol at most, and fewer if that costs more. A trial has loneRun messages in
	// a row, or overlapRun if they overlap: they may have as many buffers.
	trialInterval = 100
	loneRun       = 2 * keptTimes
	overlapRun    = 32
	// The first earlyTrials trials of lone messages begin after earlyInterval messages each. The one after them begins so late that
	// all of them together are not more than one of trialInterval messages.
	earlyTrials   = 2
	earlyInterval = 100
	// rarestTrial bounds how many times rarer trials become, so that a protocol that has become fast is found.
	rarestTrial = 2
	// keptTimes is how many measurements are kept. The second least of them is used: the least one may be an accident, and longer
	// ones were interrupted, or touched memory for the first time.
	keptTimes = 4
	// switchRatio: another protocol is chosen if its cost is less than this part of the present one. So chance causes no change.
	switchRatio = 0.9

	firstClassBits = 12 // classes begin at 4 KiB
	lastClassBits  = 24 // the last one has all messages from 16 MiB on
	classCount     = 2*(lastClassBits-firstClassBits) + 1
)

// Marks are set in the length of a message that is to be measured, and returned in ELAPSED.
const (
	timed    = 1 << 63 // it is to be measured
	lone     = 1 << 62 // the receiver has sent something after each of the last two long messages
	allMarks = timed | lone
)

// measurements are those of the messages to one peer.
type measurements struct {
	handshake times                       // what a lone read takes besides its copy, in nanoseconds
	received  uint64                      // messages from the peer when the last long one was sent to it
	answered  bool                        // the peer had sent something between that message and the long one before it
	classes   [2][classCount]*lengthClass // of messages that overlap, and of lone ones; nil: there were none
}

// class returns the class of messages of n bytes. Of marks only lone matters.
func (m *measurements) class(n int, marks uint64) *lengthClass {
	c := &m.classes[marks&lone/lone][classOf(n)]
	if *c == nil {
		*c = new(lengthClass)
	}
	return *c
}

// classOf returns the number of the class of messages of n bytes.
func classOf(n int) int {
	k := bits.Len(uint(n)) - 1 // n is in [2^k, 2^(k+1))
	if k < firstClassBits {
		return 0
	}
	i := 2 * (k - firstClassBits)
	if n>>(k-1)&1 != 0 { // the upper half, from 1.5 times 2^k on
		i++
	}
	return min(i, classCount-1)
}

// lengthClass is the choice for messages of about the same length.
type lengthClass struct {
	chosen    Protocol
	run       Protocol // what the messages of the present run take
	runLeft   int      // messages of the run that are still to be sent
	lastTrial Protocol // what the last trial has tried
	repeat    bool     // a run of the chosen protocol follows: it is measured under the same conditions
	sent      uint64   // messages
	trials    int      // trials that have begun
	nextTrial uint64   // the message that begins the next trial
	reports   int
	lone      bool
	handshake float64 // that of measurements, for each byte of the last message
	of        [protocolCount]protocolTimes
}

// protocolTimes are the measurements of a protocol.
type protocolTimes struct {
	tried    int // messages, up to firstTries
	receiver times
	// sender is empty for reads. For lone messages it has the time of the first fragment, and is empty for shared ones as well.
	sender times
}

// times are the last measurements of one side, in nanoseconds for each byte that it copied. 0 means that there is none.
type times struct {
	count int
	last  [keptTimes]float64
}

// add adds the time for some bytes.
func (t *times) add(spent time.Duration, bytes int) {
	t.last[t.count%keptTimes] = float64(max(spent, 1)) / float64(bytes)
	t.count++
}

// typical returns the measurement that is used, or 0.
func (t *times) typical() float64 {
	if t.count == 0 {
		return 0
	}
	sorted := t.last
	kept := sorted[:min(t.count, keptTimes)]
	slices.Sort(kept)
	return kept[min(1, len(kept)-1)]
}

// protocolSet has a bit for each of its protocols.
type protocolSet uint8

func setOf(ps ...Protocol) (s protocolSet) {
	for _, p := range ps {
		s |= 1 << p
	}
	return s
}

// measurable are the protocols of messages that are measured.
var measurable = setOf(Fragmented, RendezvousRead, RendezvousShared)

func (s protocolSet) has(p Protocol) bool { return s>>p&1 != 0 }

// after returns the protocol of s that follows p, cyclically. s is not empty.
func (s protocolSet) after(p Protocol) Protocol {
	for {
		if p = (p + 1) % protocolCount; s.has(p) {
			return p
		}
	}
}

// take returns the protocol of the next message, and reports whether it is to be measured. possible are those that can carry it.
// first, one of these, is the one to begin with.
func (c *lengthClass) take(first Protocol, possible protocolSet) (_ Protocol, measure bool) {
	if c.sent++; c.sent == 1 {
		c.chosen = first
	}
	others := possible &^ setOf(c.chosen)
	if p, ok := c.untried(first, possible); ok {
		c.of[p].tried++
		c.lastTrial = p
		c.nextTrial = c.sent + c.interval(others)
		return p, true
	}
	if c.runLeft > 0 && !possible.has(c.run) {
		c.runLeft = 0
	}
	switch {
	case others == 0:
		return c.chosen, false
	case c.runLeft > 0:
	case c.repeat:
		c.repeat = false
		c.run, c.runLeft = c.chosen, c.runLength()
	case c.sent >= c.nextTrial && others != possible:
		c.lastTrial = others.after(c.lastTrial)
		c.repeat = true
		c.trials++
		c.nextTrial = c.sent + c.interval(others)
		c.run, c.runLeft = c.lastTrial, c.runLength()
	}
	switch {
	case c.runLeft > 0 && possible.has(c.run):
		c.runLeft--
		return c.run, c.runLeft < keptTimes
	case others == possible: // the chosen protocol cannot carry the message
		return c.cheapest(first, possible), false
	}
	return c.chosen, false
}

// untried returns the first of the possible protocols, from first on, that has had less than its first tries.
func (c *lengthClass) untried(first Protocol, possible protocolSet) (Protocol, bool) {
	for p := first; ; {
		if c.of[p].tried < firstTries {
			return p, true
		}
		if p = possible.after(p); p == first {
			return 0, false
		}
	}
}

// interval returns after how many messages the next trial begins, which tries one of others. The more that costs, the later,
// except for early trials.
func (c *lengthClass) interval(others protocolSet) uint64 {
	least := float64(c.runLength() * trialInterval)
	if c.lone && c.trials <= earlyTrials {
		if c.trials < earlyTrials {
			return earlyInterval
		}
		least *= earlyTrials + 1
	}
	if others == 0 {
		return uint64(least)
	}
	chosen, other := c.cost(c.chosen), c.cost(others.after(c.lastTrial))
	if chosen == 0 || other == 0 {
		return uint64(least)
	}
	return uint64(least * min(max(other/chosen, 1), rarestTrial))
}

// runLength returns how many messages in a row a trial has.
func (c *lengthClass) runLength() int {
	if c.lone {
		return loneRun
	}
	return overlapRun
}

// cost returns what a protocol costs, in nanoseconds for each byte of the message. 0 means that this is unknown.
func (c *lengthClass) cost(p Protocol) float64 {
	sender, receiver := c.of[p].sender.typical(), c.of[p].receiver.typical()
	if c.lone {
		if receiver == 0 {
			return 0
		}
		return sender + receiver
	}
	switch p {
	case Fragmented:
		if receiver == 0 {
			return 0
		}
		return max(sender, receiver)
	case RendezvousShared:
		if sender != 0 && receiver != 0 {
			return 1/(1/sender+1/receiver) + c.handshake
		}
		receiver = max(sender, receiver) // one of them has copied all
	}
	if receiver == 0 {
		return 0
	}
	return receiver + c.handshake
}

// cheaper reports whether the cost of p is known, and less than ratio times that of q, or that of q is unknown.
func (c *lengthClass) cheaper(p, q Protocol, ratio float64) bool {
	a, b := c.cost(p), c.cost(q)
	return a != 0 && (b == 0 || a < ratio*b)
}

// cheapest returns which of the possible protocols costs least, or first if nothing is known.
func (c *lengthClass) cheapest(first Protocol, possible protocolSet) Protocol {
	best := first
	for p := range protocolCount {
		if possible.has(p) && c.cheaper(p, best, 1) {
			best = p
		}
	}
	return best
}

// received adds how long a receiver has copied some bytes of a message, and chooses anew. While the first messages are reported,
// the cheapest protocol is chosen; later one that is clearly cheaper.
func (c *lengthClass) received(p Protocol, spent time.Duration, bytes int) {
	c.of[p].receiver.add(spent, bytes)
	ratio, first := switchRatio, 0
	for q := range c.of {
		first += c.of[q].tried
	}
	if c.reports++; c.reports <= first {
		ratio = 1
	}
	for q := range protocolCount {
		if c.cheaper(q, c.chosen, ratio) {
			c.chosen = q
		}
	}
}

// measuredProtocol returns the protocol of a message of n bytes that may be measured, and its marks: none if it is not to be.
// first is what the lengths suggest. fragments says that these are allowed.
func (p *peer) measuredProtocol(n int, first Protocol, fragments bool) (_ Protocol, marks uint64) {
	x, m := &p.path.thresholds, p.measured
	possible := setOf(RendezvousRead)
	if p.path.cooperative && n >= MinShared {
		possible |= setOf(RendezvousShared)
	}
	if fragments && n <= x.MaxStream {
		possible |= setOf(Fragmented)
	}
	if !possible.has(first) {
		first = RendezvousRead
	}
	if m == nil {
		m = new(measurements)
		p.measured = m
	}
	marks = timed
	received := p.link.Received()
	answered := received != m.received
	if answered && m.answered {
		marks |= lone
	}
	m.received, m.answered = received, answered
	c := m.class(n, marks)
	c.lone, c.handshake = marks&lone != 0, m.handshake.typical()/float64(n)
	protocol, measure := c.take(first, possible)
	if !measure {
		marks = 0
	}
	return protocol, marks
}

// sentPart adds how long this process has copied some bytes of a message of n bytes to a peer; first is the time of the first
// fragment.
func (p *peer) sentPart(n int, marks uint64, protocol Protocol, spent, first time.Duration, bytes int) {
	if p.measured == nil || bytes == 0 { // nil: another domain has taken over meanwhile
		return
	}
	x := &p.measured.class(n, marks).of[protocol].sender
	switch {
	case marks&lone == 0:
		x.add(spent, bytes)
	case protocol == Fragmented:
		x.add(first, n)
	}
}

// elapsed is what one side measures of a message.
type elapsed struct {
	marks uint64        // of the message; 0: it is not measured
	began time.Duration // receiver: when its first header arrived; 0: it was unexpected. Sender: when the RTS was prepared
	spent time.Duration // how long this process has copied
	moved int           // how many bytes
}

// begin returns the time before some bytes are copied, if the message is measured.
func (x *elapsed) begin(e *Engine) time.Duration {
	if x.marks == 0 {
		return 0
	}
	return e.now()
}

// end must be called when n bytes were copied. began is the result of begin.
func (x *elapsed) end(e *Engine, began time.Duration, n int) {
	if x.marks != 0 {
		x.spent += e.now() - began
		x.moved += n
	}
}

// report reports the times of a message of n bytes that is complete. id is that of the sender's request if it waits for this
// process. The report is dropped unless it can be sent at once: it is no more than advice, and the peer may have left.
func (x *elapsed) report(e *Engine, peer int32, n int, protocol Protocol, id uint64) {
	p := e.peer(peer)
	if x.marks == 0 || x.moved == 0 || p.ep == nil || p.head != nil || p.finalized != nil || p.announced || p.refuses {
		return
	}
	whole := uint64(0)
	switch {
	case x.began == 0:
	case protocol == Fragmented:
		whole = uint64(e.now() - x.began)
	default:
		whole = id
	}
	h, end := wire.Header(wire.Envelope{Kind: wire.Elapsed}, uint64(n)|x.marks, uint64(protocol),
		uint64(max(x.spent, 1)), uint64(x.moved), whole)
	_ = p.ep.Send(h[:end], nil) // if the peer is lost an event follows
}

// handleElapsed handles ELAPSED: what the receiver of a message from this process has measured.
func (e *Engine) handleElapsed(peer int32, w [5]uint64) bool {
	n, protocol, spent, moved := w[0]&^allMarks, Protocol(w[1]), time.Duration(w[2]), w[3]
	if w[0]&timed == 0 || n > maxBytes || w[1] >= uint64(protocolCount) || !measurable.has(protocol) || spent <= 0 ||
		moved == 0 || moved > n {
		return false
	}
	whole := time.Duration(w[4])
	if protocol != Fragmented {
		whole = 0
		r := e.requests.byID(w[4])
		if r != nil && r.awaitsPeer(peer) && r.out.kind() == wire.RTS && r.transfer.elapsed.marks == w[0]&allMarks {
			whole = e.now() - r.transfer.elapsed.began
		}
	}
	m := e.peer(peer).measured
	if m == nil { // another domain has taken over meanwhile
		return true
	}
	c := m.class(int(n), w[0])
	switch {
	case w[0]&lone == 0:
		c.received(protocol, spent, int(moved))
	case whole > 0:
		if protocol == RendezvousRead {
			m.handshake.add(whole-spent, 1)
		}
		c.received(protocol, whole, int(n))
	}
	return true
}
