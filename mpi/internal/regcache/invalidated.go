package regcache

import (
	"sync"
	"sync/atomic"
)

// invalidatedList is the list of entries whose memory the collector has freed. Cleanups add to it, which run at any time.
type invalidatedList struct {
	mu       sync.Mutex
	entries  []*entry
	nonEmpty atomic.Bool // read without mu
}

func (l *invalidatedList) add(e *entry) {
	l.mu.Lock()
	l.entries = append(l.entries, e)
	l.nonEmpty.Store(true)
	l.mu.Unlock()
}

func (l *invalidatedList) take() []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	es := l.entries
	l.entries = nil
	l.nonEmpty.Store(false)
	return es
}
