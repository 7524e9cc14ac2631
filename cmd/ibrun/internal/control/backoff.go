package control

import (
	"context"
	"time"
)

// The time between two attempts to connect to the coordinator, or to listen, doubles between these.
const (
	firstBackoff = 5 * time.Millisecond // the coordinator usually listens by then
	lastBackoff  = 500 * time.Millisecond
)

// Backoff waits between attempts, longer after each. The zero Backoff is ready to use.
type Backoff struct{ last time.Duration }

// Wait waits until the next attempt. It reports false if ctx has ended.
func (b *Backoff) Wait(ctx context.Context) bool {
	b.last = min(max(firstBackoff, 2*b.last), lastBackoff)
	select {
	case <-ctx.Done():
		return false
	case <-time.After(b.last):
		return true
	}
}
