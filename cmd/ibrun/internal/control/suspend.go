package control

import (
	"sync"
	"time"
)

// suspension says which side is stopped for a while on purpose. Nothing is expected meanwhile.
type suspension struct {
	here     bool // between Suspend and Resume
	there    bool // the other side has announced that it stops reading and writing
	notified bool // this side has notified the other that it is suspended
}

// any reports whether a side is suspended.
func (s *suspension) any() bool { return s.here || s.there }

// Suspend notifies the other side that this process is about to be stopped, so that missing heartbeats do not count as a failure.
// It returns when the notification has been sent, or cannot be sent within a second. Resume ends the suspension.
func (c *Conn) Suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspension.here, c.suspension.notified = true, false
	c.setReadDeadline(c.link)
	c.wakeWriter()
	c.waitUntil(closeTimeout, func() bool { return c.suspension.notified })
}

// Resume starts to send heartbeats again.
func (c *Conn) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspension.here, c.heartbeatDue = false, true
	c.restartClocks(time.Now())
	c.setReadDeadline(c.link)
	c.wakeWriter()
}

// SuspendAll calls Suspend of several connections at the same time.
func SuspendAll(conns []*Conn) {
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(c.Suspend)
	}
	all.Wait()
}

// setPeerSuspended records whether the other side is suspended. The caller must hold mu.
func (c *Conn) setPeerSuspended(suspended bool, now time.Time) {
	if c.suspension.there {
		c.restartClocks(now)
	}
	c.suspension.there = suspended
}
