package control

import "time"

// A process may be stopped: by SIGSTOP, by the freezer of its cgroup, or because its virtual machine is paused. When it runs
// again, its deadlines have passed, although the other side may have sent heartbeats all the time. So the time in which this
// process did not run is not silence of the other side. A goroutine of each Conn notes regularly that the process runs.
//
// clocks lists every time since when a side waits for something, so that all are moved together. Only ran is not moved, and
// lostSince, which is for the user.

// interval returns the time between two heartbeats of a side, and between two notes that the process runs.
func (c *Conn) interval() time.Duration { return min(heartbeatInterval, c.heartbeat/minHeartbeats) }

// watchRunning notes that this process runs, and checks whether what it writes arrives, until the connection has ended.
func (c *Conn) watchRunning() {
	ticker := time.NewTicker(c.interval())
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			c.mu.Lock()
			c.noteRunning(now)
			l := c.link
			c.mu.Unlock()
			if l != nil {
				c.checkFlow(l, now)
			}
		case <-c.lost:
			return
		}
	}
}

// noteRunning notes that this process runs at the time now. If it did not run before, the other side has that much more time. The
// caller must hold mu.
func (c *Conn) noteRunning(now time.Time) {
	gap := now.Sub(c.times.ran)
	if gap <= 0 {
		return // another goroutine was faster
	}
	c.times.ran = now
	if gap <= 2*c.interval() {
		return
	}
	c.flow.skip(gap, now)
	c.moveClocks(func(since time.Time) time.Time {
		if since = since.Add(gap); since.After(now) {
			return now
		}
		return since
	})
}

// restartClocks begins all waits again, because a side was suspended until now. The caller must hold mu.
func (c *Conn) restartClocks(now time.Time) {
	c.flow.pause(now)
	c.moveClocks(func(time.Time) time.Time { return now })
	c.times.relinked = time.Time{} // what was not heard over that link before does not count
}

// moveClocks sets all times that are not zero to what the function returns for them. The caller must hold mu.
func (c *Conn) moveClocks(to func(since time.Time) time.Time) {
	for _, since := range c.clocks() {
		if !since.IsZero() {
			*since = to(*since)
		}
	}
}

// clocks returns all times since which a side waits for something. The caller must hold mu.
func (c *Conn) clocks() []*time.Time {
	all := c.times.waits()
	if c.link != nil {
		all = append(all, &c.link.writing, &c.link.draining)
	}
	return all
}

// expects reports whether the other side may still send something over a link whose read has timed out.
func (c *Conn) expects(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.noteRunning(now)
	deadline := c.readDeadline(l)
	return c.link == l && (deadline.IsZero() || now.Before(deadline))
}
