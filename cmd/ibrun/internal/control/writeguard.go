package control

import "time"

// writeGuard ends a write that the other side does not accept within the time of a heartbeat. It is not a deadline of the write,
// because that time is longer while a side is stopped, and an encrypted connection cannot be written to after a deadline.
type writeGuard struct {
	c     *Conn
	l     *link
	timer *time.Timer
}

// newWriteGuard returns the guard of the writes to a link.
func newWriteGuard(c *Conn, l *link) *writeGuard {
	g := &writeGuard{c: c, l: l}
	g.timer = time.AfterFunc(time.Hour, g.check)
	g.timer.Stop()
	return g
}

// begin must be called before each write.
func (g *writeGuard) begin() {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	g.l.writing = time.Now()
	g.timer.Reset(g.c.heartbeat)
}

// end must be called after the last of several writes.
func (g *writeGuard) end() {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	g.l.writing = time.Time{}
	g.timer.Stop()
}

// check ends the write that is going on, unless there is a reason to wait longer.
func (g *writeGuard) check() {
	c := g.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.l.writing.IsZero() {
		return
	}
	now := time.Now()
	c.noteRunning(now)
	if c.suspension.any() { // the other side cannot read
		g.l.writing = now
	}
	if left := c.heartbeat - now.Sub(g.l.writing); left > 0 { // another write has begun meanwhile, or this process was stopped
		g.timer.Reset(left)
		return
	}
	_ = g.l.raw.SetWriteDeadline(now) // if that fails, the link is closed already
}
