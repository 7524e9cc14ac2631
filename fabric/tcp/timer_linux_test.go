package tcp

import (
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
)

// stopFor lets a time pass in which the process of a domain does not run. The caller must hold the lock of the domain.
func (d *Domain) stopFor(pause time.Duration) {
	clock := d.clock
	d.clock = func() time.Time { return clock().Add(pause) }
}

// TestEventAfterStop: a process was stopped for longer than the timeout, and its connection has ended meanwhile, before anything
// had arrived over it. That event is handled before the timer expires. The peer is not lost, and has not more time than others.
func TestEventAfterStop(t *testing.T) {
	for name, list := range map[string]func(d *Domain, e *endpoint){
		"active":   (*Domain).activate,
		"by epoll": (*Domain).deactivate,
	} {
		t.Run(name, func(t *testing.T) {
			ds, e := helloPair(t)
			d := ds[0]
			d.mu.Lock()                  // nothing is received before the process is stopped
			before := d.stats.reconnects // the two may have connected to each other at once
			e.conn.flow = vainFlow(time.Now().Add(-testTimeout / 2))
			list(d, e)
			ds[1].mu.Lock()
			ds[1].peers[0].dropConnection()
			ds[1].mu.Unlock()
			d.stopFor(2 * testTimeout)
			if _, err := d.poll(nil); err != nil {
				t.Error(err)
			}
			now := d.clock()
			d.tick()
			if left := e.conn.giveUpAt.Sub(now); e.state != up || e.conn.vain != 1 || left < testTimeout/4 || left > testTimeout*3/4 {
				t.Errorf("state %v, in vain: %d, lost in %v: %v", e.state, e.conn.vain, left, e.downErr)
			}
			d.mu.Unlock()
			pollUntilDone(t, "the connection is made again", func() string { return describe(d) + describe(ds[1]) }, func() bool {
				for _, d := range ds {
					if ev := pollOne(t, d); ev.Kind == fabric.PeerDown {
						t.Fatal(ev.Err)
					}
				}
				n, _ := d.Reconnects()
				return n > before
			})
			sendAll(t, ds, e, 1, "afterwards")
		})
	}
}

// TestDeadlinesAfterStop: all deadlines are extended once by the time in which a process was stopped, except an interval of the
// timer, and none if the process was only late. Nothing that has happened moves into the future.
func TestDeadlinesAfterStop(t *testing.T) {
	ds, e := helloPair(t)
	d := ds[0]
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.clock = func() time.Time { return now }
	e.suspect(now.Add(-testTimeout / 2))
	d.closeBy, d.timer.ticked = now.Add(testTimeout), now
	left := func() (left [4]time.Duration) {
		now := d.now()
		for i, at := range [...]time.Time{e.conn.attempt.deadline, e.conn.giveUpAt, e.conn.limit(d.settings.timeout), d.closeBy} {
			left[i] = at.Sub(now)
		}
		return left
	}
	check := func(what string, before [4]time.Duration, passed time.Duration) {
		t.Helper()
		for k := range 2 {
			for i, got := range left() {
				if want := before[i] - passed; got != want {
					t.Errorf("%s, call %d: %v are left of deadline %d, want %v", what, k+1, got, i, want)
				}
			}
		}
	}
	first := left()
	late := fastTick + maxLate - 1
	now = now.Add(late)
	check("late", first, late)
	now = now.Add(10 * testTimeout)
	check("stopped", first, fastTick)
	e.conn.since = now // another attempt begins
	now = now.Add(testTimeout)
	if d.now(); e.conn.since != now.Add(-fastTick) || e.conn.flow.Since().After(now) {
		t.Errorf("connecting since %v, nothing arrives since %v, it is %v", e.conn.since, e.conn.flow.Since(), now)
	}
}
