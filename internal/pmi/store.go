package pmi

import (
	"strings"
	"sync"
)

// maxRankBytes is how many bytes one rank may store.
const maxRankBytes = 1 << 20

// store is a key-value space. A value is visible immediately; the protocol requires it only after a barrier.
type store struct {
	mu      sync.RWMutex
	entries map[string]entry
	used    map[int]int // bytes by owner
}

type entry struct {
	value string
	owner int
}

// size returns the bytes that an entry counts. The constant is an estimate for the map.
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

// put stores value for owner. It returns false if that would exceed the limit of the owner, or if the key exists and replace is
// not set.
func (s *store) put(owner int, key, value string, replace bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := entry{strings.Clone(value), owner} // the words are substrings of a message, which must not stay alive
	old, had := s.entries[key]
	if had && !replace {
		return false
	}
	size := e.size(key)
	if had && old.owner == owner {
		size -= old.size(key)
	}
	if s.used[owner]+size > maxRankBytes {
		return false
	}
	if had && old.owner != owner {
		s.used[old.owner] -= old.size(key)
	}
	s.used[owner] += size
	s.entries[strings.Clone(key)] = e
	return true
}

// remove returns false if the key does not exist.
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
