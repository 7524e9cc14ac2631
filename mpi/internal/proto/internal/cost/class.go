package cost

import (
	"slices"
	"time"

	"github.com/ibrun/ibrun/mpi/internal/protocols"
)

const (
	firstTries = 5 // messages that try each protocol at first, so that three take 15 messages
	// One of trialInterval messages tries another protocol at most, and fewer if that costs more. A
	// trial has loneRun messages in a row, or overlapRun if they overlap: they may have as many
	// buffers.
	trialInterval = 100
	loneRun       = 2 * keptTimes
	overlapRun    = 32
	// The first earlyTrials trials of lone messages begin after earlyInterval messages each. The
	// one after them begins so late that all of them together are not more than one of
	// trialInterval messages.
	earlyTrials   = 2
	earlyInterval = 100
	// rarestTrial bounds how many times rarer trials become, so that a protocol that has become
	// fast is found.
	rarestTrial = 2
	// keptTimes is how many measurements are kept. The second least of them is used: the least one
	// may be an accident, and longer ones were interrupted, or touched memory for the first time.
	keptTimes = 4
	// switchRatio: another protocol is chosen if its cost is less than this part of the present
	// one. So chance causes no change.
	switchRatio = 0.9
)

// lengthClass is the choice for messages of about the same length.
type lengthClass struct {
	chosen    protocols.Protocol
	run       protocols.Protocol // what the messages of the present run take
	runLeft   int                // messages of the run that are still to be sent
	lastTrial protocols.Protocol // what the last trial has tried
	repeat    bool               // a run of the chosen protocol follows, under the same conditions
	sent      uint64             // messages
	trials    int                // trials that have begun
	nextTrial uint64             // the message that begins the next trial
	reports   int
	lone      bool
	handshake float64 // that of measurements, for each byte of the last message
	of        [protocols.Count]protocolTimes
}

// protocolTimes are the measurements of a protocol.
type protocolTimes struct {
	tried    int // messages, up to firstTries
	receiver times
	// sender is empty for reads. For lone messages it has the time of the first fragment, and is
	// empty for shared ones as well.
	sender times
}

// times are the last measurements of one side, in nanoseconds for each byte that it copied. 0 means
// that there is none.
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

// take returns the protocol of the next message, and reports whether it is to be measured. possible
// are those that can carry it. first, one of these, is the one to begin with.
func (c *lengthClass) take(first protocols.Protocol, possible Set) (_ protocols.Protocol, measure bool) {
	if c.sent++; c.sent == 1 {
		c.chosen = first
	}
	others := possible &^ SetOf(c.chosen)
	if p, ok := c.untried(first, possible); ok {
		c.of[p].tried++
		c.lastTrial = p
		c.nextTrial = c.sent + c.interval(others)
		return p, true
	}
	if c.runLeft > 0 && !possible.Has(c.run) {
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
	case c.runLeft > 0 && possible.Has(c.run):
		c.runLeft--
		return c.run, c.runLeft < keptTimes
	case others == possible: // the chosen protocol cannot carry the message
		return c.cheapest(first, possible), false
	}
	return c.chosen, false
}

// untried returns the first of the possible protocols, from first on, that has had less than its
// first tries.
func (c *lengthClass) untried(first protocols.Protocol, possible Set) (protocols.Protocol, bool) {
	for p := first; ; {
		if c.of[p].tried < firstTries {
			return p, true
		}
		if p = possible.after(p); p == first {
			return 0, false
		}
	}
}

// interval returns after how many messages the next trial begins, which tries one of others. The
// more that costs, the later, except for early trials.
func (c *lengthClass) interval(others Set) uint64 {
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

// cost returns what a protocol costs, in nanoseconds for each byte of the message. 0 means that
// this is unknown.
func (c *lengthClass) cost(p protocols.Protocol) float64 {
	sender, receiver := c.of[p].sender.typical(), c.of[p].receiver.typical()
	if c.lone {
		if receiver == 0 {
			return 0
		}
		return sender + receiver
	}
	switch p {
	case protocols.Fragmented:
		if receiver == 0 {
			return 0
		}
		return max(sender, receiver)
	case protocols.RendezvousShared:
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

// cheaper reports whether the cost of p is known, and less than ratio times that of q, or that of q
// is unknown.
func (c *lengthClass) cheaper(p, q protocols.Protocol, ratio float64) bool {
	a, b := c.cost(p), c.cost(q)
	return a != 0 && (b == 0 || a < ratio*b)
}

// cheapest returns which of the possible protocols costs least, or first if nothing is known.
func (c *lengthClass) cheapest(first protocols.Protocol, possible Set) protocols.Protocol {
	best := first
	for p := range protocols.Count {
		if possible.Has(p) && c.cheaper(p, best, 1) {
			best = p
		}
	}
	return best
}

// received adds how long a receiver has copied some bytes of a message, and chooses anew. While the
// first messages are reported, the cheapest protocol is chosen; later one that is clearly cheaper.
func (c *lengthClass) received(p protocols.Protocol, spent time.Duration, bytes int) {
	c.of[p].receiver.add(spent, bytes)
	ratio, first := switchRatio, 0
	for q := range c.of {
		first += c.of[q].tried
	}
	if c.reports++; c.reports <= first {
		ratio = 1
	}
	for q := range protocols.Count {
		if c.cheaper(q, c.chosen, ratio) {
			c.chosen = q
		}
	}
}
