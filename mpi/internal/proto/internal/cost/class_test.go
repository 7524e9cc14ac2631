package cost

import (
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ibrun/ibrun/mpi/internal/protocols"
)

// madeCosts returns how long a message of a class takes by each protocol, in nanoseconds for each
// byte.
type madeCosts func(p protocols.Protocol) float64

// report reports that the receiver of a message has copied for so long, in nanoseconds for each
// byte.
func (c *lengthClass) report(p protocols.Protocol, perByte float64) {
	c.received(p, time.Duration(perByte*float64(time.Millisecond)), int(time.Millisecond))
}

// sendClass sends messages of a class. Each report arrives when delay more messages have been sent.
// It returns how often each protocol was taken, and how often the choice changed.
func sendClass(c *lengthClass, count, delay int, first protocols.Protocol, possible Set, cost madeCosts) (
	taken [protocols.Count]int, changes int,
) {
	type report struct {
		p       protocols.Protocol
		perByte float64
		at      int // the number of the message after which it arrives
	}
	var reports []report
	for i := range count {
		before, sent := c.chosen, c.sent
		p, measure := c.take(first, possible)
		taken[p]++
		if measure {
			reports = append(reports, report{p, cost(p), i + delay})
		}
		for len(reports) > 0 && (reports[0].at <= i || i == count-1) {
			c.report(reports[0].p, reports[0].perByte)
			reports = reports[1:]
		}
		if sent > 0 && c.chosen != before {
			changes++
		}
	}
	return taken, changes
}

var (
	all              = SetOf(protocols.Fragmented, protocols.RendezvousRead, protocols.RendezvousShared)
	withoutFragments = SetOf(protocols.RendezvousRead, protocols.RendezvousShared)
	withoutShared    = SetOf(protocols.Fragmented, protocols.RendezvousRead)
)

// TestChoiceByTime: whatever the first guess, after 16 messages nearly all take the fastest
// protocol. At most one of a hundred of the later ones takes another.
func TestChoiceByTime(t *testing.T) {
	for _, possible := range []Set{all, withoutFragments, withoutShared} {
		for first := range protocols.Count {
			for best := range protocols.Count {
				if !possible.Has(first) || !possible.Has(best) {
					continue
				}
				var c lengthClass
				cost := func(p protocols.Protocol) float64 {
					if p == best {
						return 0.1
					}
					return 0.13 + float64(p)/100
				}
				if taken, _ := sendClass(&c, 15, 0, first, possible, cost); c.chosen != best || taken[best] < firstTries {
					t.Errorf("first %d, best %d: %d is chosen after %v", first, best, c.chosen, taken)
				}
				const later = 100_000
				taken, changes := sendClass(&c, later, 3, first, possible, cost)
				if others := later - taken[best]; changes != 0 || others > later/trialInterval || others < later/trialInterval/4 {
					t.Errorf("first %d, best %d: %v, %d changes", first, best, taken, changes)
				}
			}
		}
	}
}

// TestChoiceAfterSlowStart: if the first messages of the fastest protocol take long, lone messages
// find it by one of the early trials, whatever the first guess. The next trial comes later in
// return: at most one of a hundred messages is in a trial.
func TestChoiceAfterSlowStart(t *testing.T) {
	for _, possible := range []Set{all, withoutFragments, withoutShared} {
		for first := range protocols.Count {
			for best := range protocols.Count {
				if possible.Has(first) && possible.Has(best) {
					slowStart(t, possible, first, best)
				}
			}
		}
	}
}

func slowStart(t *testing.T, possible Set, first, best protocols.Protocol) {
	c := lengthClass{lone: true}
	slow := firstTries
	cost := func(p protocols.Protocol) float64 {
		switch {
		case p != best:
			return 0.6
		case slow > 0:
			slow--
			return 10
		}
		return 0.5
	}
	tries := firstTries * bits.OnesCount8(uint8(possible))
	early := tries + earlyTrials*earlyInterval + loneRun
	before, _ := sendClass(&c, early, 0, first, possible, cost)
	if c.chosen != best || c.trials != earlyTrials {
		t.Errorf("%d of %b, first %d: %d is chosen after %d trials", best, possible, first, c.chosen, c.trials)
	}
	const later = (earlyTrials + 3) * loneRun * trialInterval
	taken, _ := sendClass(&c, later, 0, first, possible, cost)
	if others := later - taken[best]; others == 0 || others+earlyTrials*loneRun > later/trialInterval {
		t.Errorf("%d of %b, first %d: %v, then %v", best, possible, first, before, taken)
	}
}

// TestChoiceIsSteady: times that differ by chance, and single ones that are much longer, do not
// change the choice, as long as no protocol is clearly faster.
func TestChoiceIsSteady(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var c lengthClass
	cost := func(p protocols.Protocol) float64 {
		x := 1 + 0.06*random.Float64()
		if random.IntN(20) == 0 {
			x *= 1 + 30*random.Float64()
		}
		return x
	}
	sendClass(&c, 15, 0, protocols.Fragmented, all, cost)
	taken, changes := sendClass(&c, 200_000, 10, protocols.Fragmented, all, cost)
	if changes > 5 {
		t.Errorf("%d changes: %v", changes, taken)
	}
}

// TestChoiceFollows: when another protocol becomes the fastest, be it that the chosen one gets
// slower or the other one faster, it is chosen within some trials.
func TestChoiceFollows(t *testing.T) {
	for _, change := range []func(now, p protocols.Protocol) float64{
		func(now, p protocols.Protocol) float64 { // the fastest takes half the time
			if p == now {
				return 0.5
			}
			return 1
		},
		func(now, p protocols.Protocol) float64 { // the others take thirty times as long
			if p == now {
				return 1
			}
			return 30
		},
	} {
		var c lengthClass
		now := protocols.Fragmented
		cost := func(p protocols.Protocol) float64 { return change(now, p) }
		sendClass(&c, 15, 0, now, all, cost)
		for i := range 10 {
			if c.chosen != now {
				t.Fatalf("step %d: %d is chosen, not %d", i, c.chosen, now)
			}
			now = all.after(now)
			_, changes := sendClass(&c, 10*overlapRun*trialInterval*rarestTrial, 5, protocols.Fragmented, all, cost)
			if changes > 2 {
				t.Errorf("step %d: %d changes", i, changes)
			}
		}
	}
}

// TestChoiceUnmeasured: a protocol that is never reported, because the receiver is always late or
// has other memory, loses against one that is. If none is reported the first guess stays.
func TestChoiceUnmeasured(t *testing.T) {
	var c lengthClass
	for range 1000 {
		if p, measure := c.take(protocols.Fragmented, all); measure && p != protocols.Fragmented {
			c.report(p, float64(p))
		}
	}
	if c.chosen != protocols.RendezvousRead {
		t.Errorf("%d is chosen", c.chosen)
	}
	var none lengthClass
	for range 1000 {
		none.take(protocols.RendezvousShared, all)
	}
	if none.chosen != protocols.RendezvousShared {
		t.Errorf("%d is chosen, without reports", none.chosen)
	}
}

// TestChoicePossible: a message never takes a protocol that cannot carry it. Messages that
// fragments cannot carry, which are synchronous, take the fastest of the others.
func TestChoicePossible(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var c lengthClass
	sets := []Set{all, SetOf(protocols.RendezvousRead, protocols.RendezvousShared), SetOf(protocols.RendezvousRead)}
	for range 20_000 {
		possible := sets[random.IntN(len(sets))]
		p, measure := c.take(protocols.RendezvousRead, possible)
		if !possible.Has(p) {
			t.Fatalf("%d was taken of %b", p, possible)
		}
		if measure {
			c.report(p, map[protocols.Protocol]float64{protocols.Fragmented: 1, protocols.RendezvousRead: 3,
				protocols.RendezvousShared: 2}[p])
		}
	}
	taken, _ := sendClass(&c, 1000, 0, protocols.RendezvousRead, sets[1], func(protocols.Protocol) float64 { return 2 })
	if c.chosen != protocols.Fragmented || taken[protocols.RendezvousShared] < 990 {
		t.Errorf("%d is chosen, synchronous messages took %v", c.chosen, taken)
	}
}

// TestLengthClasses: each class has the lengths of half a power of two.
func TestLengthClasses(t *testing.T) {
	for i := range classCount {
		k := firstClassBits + i/2
		low, high := 1<<k, 3<<(k-1)
		if i%2 == 1 {
			low, high = high, 1<<(k+1)
		}
		switch i {
		case 0:
			low = 1
		case classCount - 1:
			high = 1 << 40
		}
		if a, b := classOf(low), classOf(high-1); a != i || b != i {
			t.Errorf("%d to %d are in the classes %d and %d, not %d", low, high-1, a, b, i)
		}
	}
}

// TestCost: what a protocol costs follows from what both sides have copied.
func TestCost(t *testing.T) {
	add := func(to *times, perByte ...float64) {
		for _, x := range perByte {
			to.add(time.Duration(x*1000), 1000)
		}
	}
	c := lengthClass{handshake: 0.5}
	for p := range protocols.Count {
		if got := c.cost(p); got != 0 {
			t.Errorf("protocol %d costs %v before anything was measured", p, got)
		}
	}
	add(&c.of[protocols.Fragmented].sender, 3)
	if got := c.cost(protocols.Fragmented); got != 0 {
		t.Errorf("without a report fragments cost %v", got)
	}
	add(&c.of[protocols.Fragmented].receiver, 100, 2, 50, 1) // the second least counts
	add(&c.of[protocols.RendezvousRead].receiver, 9, 7, 7, 8, 5, 5)
	add(&c.of[protocols.RendezvousShared].sender, 6)
	if got := c.cost(protocols.RendezvousShared); got != 6.5 {
		t.Errorf("if the sender copies all, it costs %v, not 6.5", got)
	}
	add(&c.of[protocols.RendezvousShared].receiver, 3)
	for p, want := range map[protocols.Protocol]float64{protocols.Fragmented: 3, protocols.RendezvousRead: 5.5,
		protocols.RendezvousShared: 2.5} {
		if got := c.cost(p); got != want {
			t.Errorf("protocol %d costs %v, not %v", p, got, want)
		}
	}
}
