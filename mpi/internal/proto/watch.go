package proto

import (
	"time"

	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// An operation that has waited for some time sends Watch to the process that it waits for;
// departure.go says why. What follows decides when that is.

// watchDelay is how long an operation waits before it sends Watch. A wait that is that long costs
// far more than a message.
const watchDelay = 100 * time.Millisecond

// IsWatch reports whether a message that begins with a header is Watch, or Left, which answers it.
// A process sends Watch because time has passed, and not because the program does something.
func IsWatch(header []byte) bool {
	k := wire.Kind(header[0])
	return k == wire.Watch || k == wire.Left
}

// watchIfDue sends Watch for all operations that wait, if the calling goroutine has waited for x
// for long enough. It returns how long it still has to wait for that; 0 if Watch was sent. The
// caller must check the goal again afterwards.
func (d *departures) watchIfDue(x watch, t longWait) (longWait, time.Duration) {
	if d.links.failure.departed {
		d.endHopeless() // receives that were posted after Left
	}
	if t.watched {
		if x.from.Rank == AnySource && x.what.needsProcess() {
			d.watchRoute(x.from) // the next process, if the one before has left
		}
		return t, 0
	}
	now := time.Now()
	if t.since.IsZero() {
		t.since = now
	}
	if left := watchDelay - now.Sub(t.since); left > 0 {
		return t, left
	}
	t.watched = true
	d.watchAll()
	if x.what.needsProcess() {
		d.watchRoute(x.from)
	}
	return t, 0
}

// needsProcess reports whether goals of this kind are reached only if the process of their route
// does something.
func (k goalKind) needsProcess() bool {
	switch k {
	case wordReached, messageMatches, messageOrExit, segmentMapped:
		return true
	}
	return false
}

// startWatchTimer sends Watch later for a goroutine that is about to be parked. The one that sleeps
// on the transport may have begun to sleep before it, without a time limit.
func (d *departures) startWatchTimer(left time.Duration) {
	if left == 0 || d.timerRuns {
		return
	}
	d.timerRuns = true
	time.AfterFunc(left, func() {
		d.receives.mu.Lock()
		defer d.receives.mu.Unlock()
		d.timerRuns = false
		if d.closed {
			return
		}
		d.watchAll()
		if len(d.links.blocked) != 0 {
			d.waiters.rouseSleeper()
		}
	})
}

// idlePoll must be called when a goroutine that does not block has polled in vain. It does from
// time to time what watchIfDue does for one that blocks.
func (d *departures) idlePoll() {
	if d.idlePolls++; d.idlePolls%idlePollsPerCheck != 0 {
		return
	}
	now := time.Now()
	if d.links.failure.departed {
		d.endHopeless()
	}
	if d.nextIdle.IsZero() {
		d.nextIdle = now.Add(watchDelay)
	} else if now.After(d.nextIdle) {
		d.nextIdle = time.Time{}
		d.watchAll()
		d.watchRoute(d.probed)
	}
}

// idlePollsPerCheck is the number of polls in vain for which the clock is read once.
const idlePollsPerCheck = 64

// watchAll sends Watch for all receives that are posted, and for the goroutines that sleep.
func (d *departures) watchAll() {
	for _, s := range d.polled.list {
		d.watchRoute(s.waitsFor())
	}
	for _, slab := range d.receives.requests.slabs {
		for i := range slab {
			if r := &slab[i]; r.state == active && !r.send && r.posted.Posted() {
				d.watchRoute(r.route)
			}
		}
	}
	for _, x := range d.waiters.watchers {
		if x.watch.what.needsProcess() {
			d.watchRoute(x.watch.from)
		}
	}
}
