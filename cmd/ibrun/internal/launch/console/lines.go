package console

import (
	"sync"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/outbox"
)

// maxQueued is how many bytes of ibrun's own lines wait at most until standard error accepts them. Further lines are dropped.
const maxQueued = 1 << 20

// lines are ibrun's own lines that standard error has not accepted yet.
type lines struct {
	out *outbox.Writer

	mu      sync.Mutex
	dropped int           // lines that were dropped since the last one that was queued
	limit   time.Duration // of Flush; 0: none
}

// Async returns the same streams with a queue for ibrun's own lines: printing one then does not wait for standard error, which
// may be a pipe that is not read or a terminal that was stopped. The caller must call Flush at the end.
func (s Streams) Async() Streams {
	file := s.Err
	return s.AsyncTo(func(text []byte) error { return WriteAll(file, text) })
}

// AsyncTo is like Async. The lines are passed to write, one call at a time.
func (s Streams) AsyncTo(write func(text []byte) error) Streams {
	s.lines = &lines{out: outbox.New(write)}
	return s
}

// LimitFlush limits how long Flush waits.
func (s Streams) LimitFlush(limit time.Duration) {
	if s.lines != nil {
		s.lines.mu.Lock()
		defer s.lines.mu.Unlock()
		s.lines.limit = limit
	}
}

// Flush blocks until standard error has accepted all lines, or until the limit that LimitFlush has set.
func (s Streams) Flush() {
	if s.lines == nil {
		return
	}
	s.lines.mu.Lock()
	limit := s.lines.limit
	s.lines.mu.Unlock()
	s.lines.out.Flush(limit)
}

// print queues text, unless too much is queued already. missing returns the line that says how many were dropped before.
func (l *lines) print(text []byte, missing func(dropped int) []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out.Pending() > maxQueued {
		l.dropped++
		return
	}
	if l.dropped > 0 {
		l.out.Queue(missing(l.dropped))
		l.dropped = 0
	}
	l.out.Queue(text)
}
