package control

import (
	"sync"
	"time"
)

// writeGuard ends a write that the other side does not accept within the time of a heartbeat. It is no deadline of the write,
// because that time is longer while a side is stopped, and an encrypted connection cannot be written to after a deadline.
type writeGuard struct {
	c     *Conn
	l     *link
	timer *time.Timer

	mu    sync.Mutex
	began time.Time // when the write began that is going on; zero: none
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
	g.mu.Lock()
	defer g.mu.Unlock()
	g.began = time.Now()
	g.timer.Reset(g.c.heartbeat)
}

// end must be called after the last of several writes.
func (g *writeGuard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.began = time.Time{}
	g.timer.Stop()
}

// check ends the write that is going on, unless there is a reason to wait longer.
func (g *writeGuard) check() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.began.IsZero() {
		return
	}
	now := time.Now()
	waited := now.Sub(g.began)
	switch {
	case waited < g.c.heartbeat: // another write has begun meanwhile
		g.timer.Reset(g.c.heartbeat - waited)
	case waited > g.c.heartbeat+2*g.c.interval(), g.c.isSuspended():
		// This process was stopped, or the other side is: it cannot read.
		g.began = now
		g.timer.Reset(g.c.heartbeat)
	default:
		_ = g.l.raw.SetWriteDeadline(now) // if that fails, the link is closed already
	}
}

// isSuspended reports whether one of the sides has announced that it stops.
func (c *Conn) isSuspended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.suspended || c.peerSuspended
}
