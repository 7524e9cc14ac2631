package pmi

import (
	"strings"
	"sync"
)

// share is how many bytes one rank may keep in a store.
const share = 1 << 20

// store is a key-value space. What was put is visible at once, and at the latest after a barrier, as the protocol
// has it.
type store struct {
	mu      sync.RWMutex
	entries map[string]entry
	used    map[int]int // bytes by owner
}

type entry struct {
	value string
	owner int
}

// size is what an entry counts; the constant stands for what the map needs.
func (e entry) size(key string) int { return len(key) + len(e.value) + 64 }

func newStore() *store {
	return &store{entries: make(map[string]entry), used: make(map[int]int)}
}

func (s *store) get(key string) (string, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, ok := s.entries[key]
	return e.value, ok
}

// put stores value for owner. It reports false if the owner's share does not allow it, or if there is such a key
// already and replace is not set.
func (s *store) put(owner int, key, value string, replace bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := entry{strings.Clone(value), owner} // the words are parts of a whole message, which they would keep alive
	old, had := s.entries[key]
	if had && !replace {
		return false
	}
	size := e.size(key)
	if had && old.owner == owner {
		size -= old.size(key)
	}
	if s.used[owner]+size > share {
		return false
	}
	if had && old.owner != owner {
		s.used[old.owner] -= old.size(key)
	}
	s.used[owner] += size
	s.entries[strings.Clone(key)] = e
	return true
}

// remove reports false if there is no such key.
func (s *store) remove(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	if ok {
		s.used[e.owner] -= e.size(key)
		delete(s.entries, key)
	}
	return ok
}
