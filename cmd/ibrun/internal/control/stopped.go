package control

import "time"

// A process may be stopped: by SIGSTOP, by the freezer of its cgroup, or because its virtual machine is paused. When it runs
// again, its deadlines have passed, although the other side may have sent heartbeats all the time. So the time in which this
// process did not run is no silence of the other side. A goroutine of each Conn notes regularly that the process runs.

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
	gap := now.Sub(c.ran)
	if gap <= 0 {
		return // another goroutine was faster
	}
	c.ran = now
	if gap <= 2*c.interval() {
		return
	}
	c.flow.skip(gap, now)
	for _, last := range []*time.Time{&c.heard, &c.acked} {
		if *last = last.Add(gap); last.After(now) {
			*last = now
		}
	}
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
