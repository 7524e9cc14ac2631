package core

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// commTable has the communicators of a process that have been activated and not released. Any
// goroutine may use it, also one that holds the engine's lock.
type commTable struct {
	all     sync.Map // *Comm
	lastSeq atomic.Uint64
}

func (t *commTable) add(c *Comm)    { t.all.Store(c, nil) }
func (t *commTable) remove(c *Comm) { t.all.Delete(c) }

// each returns an iterator over the communicators, in any order.
func (t *commTable) each(yield func(*Comm) bool) {
	t.all.Range(func(c, _ any) bool { return yield(c.(*Comm)) })
}

// of returns the communicator with a context; nil if it has been released.
func (t *commTable) of(context uint32) *Comm {
	for c := range t.each {
		if c.contextID == context&^collectiveBit {
			return c
		}
	}
	return nil
}

// members returns the processes with which this one communicates in a context; nil for an unknown
// context.
func (t *commTable) members(context uint32) []int32 {
	if c := t.of(context); c != nil {
		return c.peers
	}
	return nil
}

// open returns the communicators of a session, or of the World Model if s is nil, in the order of
// their creation.
func (t *commTable) open(s *Session) (comms []*Comm) {
	for c := range t.each {
		if c.session == s && c.state.Load() == commReady {
			comms = append(comms, c)
		}
	}
	slices.SortFunc(comms, func(a, b *Comm) int { return cmp.Compare(a.seq, b.seq) })
	return comms
}

// need reports whether process n, which is lost, belongs to a communicator that this process still
// uses. If n has closed in order, communicators that are being freed do not count.
func (t *commTable) need(n int32, closed bool) bool {
	for c := range t.each {
		if !(closed && c.freeing.Load()) && slices.Contains(c.coll.main.peers, n) {
			return true
		}
	}
	return false
}
