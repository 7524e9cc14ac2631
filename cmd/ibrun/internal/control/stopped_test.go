package control

import (
	"testing"
	"time"
)

// The time in which this process did not run is no silence of the other side. Shorter gaps are.
func TestNoteRunning(t *testing.T) {
	begin := time.Now()
	for _, c := range []struct{ heard, gap, want time.Duration }{
		{-time.Second, 10 * time.Second, 9 * time.Second},
		{5 * time.Second, 10 * time.Second, 10 * time.Second}, // not in the future
		{-time.Second, heartbeatInterval, -time.Second},
		{0, -time.Second, 0}, // another goroutine has noted a later time
	} {
		conn := &Conn{heartbeat: time.Minute, ran: begin, heard: begin.Add(c.heard)}
		conn.noteRunning(begin.Add(c.gap))
		if got := conn.heard.Sub(begin); got != c.want || conn.ran.Before(begin) {
			t.Errorf("after %v: the other side was heard at %v, want %v", c.gap, got, c.want)
		}
	}
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
				c.ran, c.heard = c.ran.Add(-longHeartbeat*3/2), c.heard.Add(-longHeartbeat*3/2)
				c.setReadDeadline(c.link)
			}
			one.mu.Unlock()
			zero.mu.Unlock()
			exchange(t, zero, one, 10, func() {})
		})
	}
}
