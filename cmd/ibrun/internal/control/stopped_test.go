package control

import (
	"net"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The time in which this process did not run is not silence of the other side. Shorter gaps are.
func TestNoteRunning(t *testing.T) {
	begin := time.Now()
	for _, c := range []struct{ heard, gap, want time.Duration }{
		{-time.Second, 10 * time.Second, 9 * time.Second},
		{5 * time.Second, 10 * time.Second, 10 * time.Second}, // not in the future
		{-time.Second, heartbeatInterval, -time.Second},
		{0, -time.Second, 0}, // another goroutine has noted a later time
	} {
		conn := &Conn{heartbeat: time.Minute, times: times{ran: begin, heard: begin.Add(c.heard)}}
		conn.noteRunning(begin.Add(c.gap))
		if got := conn.times.heard.Sub(begin); got != c.want || conn.times.ran.Before(begin) {
			t.Errorf("after %v: the other side was heard at %v, want %v", c.gap, got, c.want)
		}
	}
}

// TestClocks: noteRunning moves every time of a connection and of its link, except ran and lostSince. No time is then in the
// future. A time that was not set remains unset.
func TestClocks(t *testing.T) {
	begin := time.Now()
	c := &Conn{heartbeat: time.Minute, times: times{ran: begin}, link: &link{}}
	var names []string
	for _, of := range []reflect.Value{reflect.ValueOf(c).Elem(), reflect.ValueOf(&c.times).Elem(), reflect.ValueOf(c.link).Elem()} {
		for i := range of.NumField() {
			name := of.Type().Field(i).Name
			if of.Field(i).Type() != reflect.TypeFor[time.Time]() || name == "ran" || name == "lostSince" {
				continue
			}
			names = append(names, name)
			isField := func(p *time.Time) bool { return of.Field(i).UnsafeAddr() == reflect.ValueOf(p).Pointer() }
			if !slices.ContainsFunc(c.clocks(), isField) {
				t.Errorf("%s is not moved", name)
			}
		}
	}
	if len(names) != len(c.clocks()) {
		t.Errorf("%d times, of %d clocks: %q", len(names), len(c.clocks()), names)
	}
	c.noteRunning(begin.Add(time.Hour))
	for i, since := range c.clocks() {
		if !since.IsZero() {
			t.Errorf("clock %d is %v", i, since)
		}
		*since = begin.Add(time.Hour - time.Second)
	}
	*c.clocks()[0] = begin.Add(time.Hour + time.Second)
	now := begin.Add(time.Hour + 10*time.Second)
	c.noteRunning(now)
	for i, since := range c.clocks() {
		if want := now.Add(-time.Second); i > 0 && *since != want || i == 0 && *since != now {
			t.Errorf("clock %d is %v before the process ran again", i, now.Sub(*since))
		}
	}
}

// TestStoppedAfterLink: a process that was stopped after another link was made expects to hear something over it for as long as
// before. The other side has not been silent.
func TestStoppedAfterLink(t *testing.T) {
	const heartbeat, stopped = time.Minute, time.Hour
	start := time.Unix(1000, 0)
	for _, isCoordinator := range []bool{true, false} {
		c := &Conn{isCoordinator: isCoordinator, heartbeat: heartbeat,
			times: times{heard: start, relinked: start.Add(heartbeat * 3 / 4), ran: start.Add(heartbeat)}}
		before := c.readDeadline(&link{})
		c.noteRunning(c.times.ran.Add(stopped))
		if got := c.readDeadline(&link{}).Sub(before); got != stopped {
			t.Errorf("node 0: %v: the deadline was moved by %v", isCoordinator, got)
		}
	}
}

// TestLinkAfterSuspension: a side that was suspended for long, and makes another link, has all its time again. That it was silent
// before is not a sign that the link is in vain.
func TestLinkAfterSuspension(t *testing.T) {
	for _, isCoordinator := range []bool{true, false} {
		left, _ := net.Pipe()
		long := time.Now().Add(-3 * time.Hour)
		c := &Conn{isCoordinator: isCoordinator, heartbeat: time.Hour, lost: make(chan struct{}), onEnd: func() {},
			suspension: suspension{there: true}, times: times{ran: time.Now(), heard: long, acked: long, relinked: long}}
		c.changed.L = &c.mu
		l, err := newLink(&greeting{conn: left, transcript: testSecret(1).Transcript([]byte("link"))}, isCoordinator)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := c.attach(l, 0); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		want := c.heartbeat
		if !isCoordinator {
			want /= 2
		}
		if got := c.readDeadline(l).Sub(begin); got < want {
			t.Errorf("node 0: %v: the other side must be heard within %v, not %v", isCoordinator, got, want)
		}
		if c.times.acked.Before(begin) || c.times.heard.Before(begin) || c.times.relinked.Before(begin) || !c.inVain() {
			t.Errorf("node 0: %v: acknowledged %v, heard %v, made %v", isCoordinator, c.times.acked, c.times.heard, c.times.relinked)
		}
		c.restartClocks(time.Now()) // this side was suspended
		if c.inVain() {
			t.Errorf("node 0: %v: a link counts as in vain because of a suspension", isCoordinator)
		}
		c.end(ErrClosed)
		c.mu.Unlock()
	}
}

// TestSuspendedBreaks: a connection that breaks while a side has been suspended for long is made again.
func TestSuspendedBreaks(t *testing.T) {
	for name, suspended := range map[string]func(zero, one *Conn) *Conn{
		"node 0": func(zero, _ *Conn) *Conn { return zero },
		"node 1": func(_, one *Conn) *Conn { return one },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zero, one, _ := pairWith(t, testSecret(1), longHeartbeat, nil)
			waitReachable(t, zero)
			side := suspended(zero, one)
			side.Suspend()
			var links []*link
			for _, c := range []*Conn{zero, one} {
				c.mu.Lock()
				c.waitUntil(longHeartbeat, func() bool { return c.suspension.any() })
				links = append(links, c.link)
				c.times.heard = c.times.heard.Add(-2 * c.heartbeat)
				c.mu.Unlock()
			}
			one.reset()
			for i, c := range []*Conn{zero, one} {
				c.mu.Lock()
				c.waitUntil(longHeartbeat, func() bool { return c.err != nil || c.link != nil && c.link != links[i] })
				c.mu.Unlock()
			}
			side.Resume()
			exchange(t, zero, one, 10, func() {})
		})
	}
}

// TestStoppedWaiting: the time in which node 0 was stopped does not count as one in which it has waited for another link.
func TestStoppedWaiting(t *testing.T) {
	const wait, stopped = time.Hour, 3 * time.Hour
	now := time.Now()
	for _, c := range []struct{ ran, left time.Duration }{{0, 0}, {-stopped, wait}} {
		conn := &Conn{heartbeat: 24 * time.Hour, times: times{ran: now.Add(c.ran), awaited: now.Add(-stopped)}}
		if got := conn.remainingWait(wait); got > c.left || got < c.left-time.Minute {
			t.Errorf("last seen running %v ago: %v are left, want %v", -c.ran, got, c.left)
		}
	}
}

// TestStoppedWriting: a write that began before this process was stopped has as much time as before, and then it is ended. While
// a side is suspended it has no limit.
func TestStoppedWriting(t *testing.T) {
	const heartbeat = time.Hour
	for _, test := range []struct {
		name                    string
		ran, wrote              time.Duration // ago
		suspended, peer, isOver bool
	}{
		{"running", 0, heartbeat + time.Minute, false, false, true},
		{"stopped", 3 * heartbeat / 4, heartbeat + time.Minute, false, false, false},
		{"stopped later", heartbeat / 4, 2 * heartbeat, false, false, true},
		{"suspended", 0, 2 * heartbeat, true, false, false},
		{"the other side is suspended", 0, 2 * heartbeat, false, true, false},
		{"nothing is written", 0, 0, false, false, false},
	} {
		raw := &deadlined{}
		now := time.Now()
		c := &Conn{heartbeat: heartbeat, times: times{ran: now.Add(-test.ran)},
			suspension: suspension{here: test.suspended, there: test.peer}, link: &link{raw: raw}}
		if test.wrote > 0 {
			c.link.writing = now.Add(-test.wrote)
		}
		g := newWriteGuard(c, c.link)
		g.check()
		g.timer.Stop()
		if !raw.at.IsZero() != test.isOver {
			t.Errorf("%s: the deadline of the write is %v", test.name, raw.at)
		}
	}
}

// deadlined is a connection that records the deadline of its writes.
type deadlined struct {
	net.Conn
	at time.Time
}

func (d *deadlined) SetWriteDeadline(at time.Time) error {
	d.at = at
	return nil
}

// TestSuspendAll: five sides that do not read delay SuspendAll no longer than one does. The time is that of a synctest bubble.
func TestSuspendAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns []*Conn
		for range 5 {
			zero, _, _ := silentNodeOver(t, time.Hour, func(*testing.T) (coordinator, node net.Conn) { return net.Pipe() })
			conns = append(conns, zero)
		}
		begin := time.Now()
		SuspendAll(conns)
		if d := time.Since(begin); d != closeTimeout {
			t.Errorf("it took %v, want %v", d, closeTimeout)
		}
		for i, c := range conns {
			if !c.suspension.here {
				t.Errorf("connection %d is not suspended", i)
			}
		}
	})
}

// A connection continues after both processes were stopped for longer than a side may be silent.
func TestStoppedProcesses(t *testing.T) {
	for name, s := range map[string]Security{"plain": testSecret(1), "encrypted": encrypted(t, 1)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zero, one, _ := pairWith(t, s, longHeartbeat, nil)
			zero.mu.Lock() // all goroutines of a Conn need its mutex
			one.mu.Lock()
			for _, c := range []*Conn{zero, one} { // as if that time had passed
				c.times.ran = c.times.ran.Add(-longHeartbeat * 3 / 2)
				c.moveClocks(func(since time.Time) time.Time { return since.Add(-longHeartbeat * 3 / 2) })
				c.setReadDeadline(c.link)
			}
			one.mu.Unlock()
			zero.mu.Unlock()
			exchange(t, zero, one, 10, func() {})
		})
	}
}
