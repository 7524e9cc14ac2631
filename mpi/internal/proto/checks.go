package proto

import (
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
)

// The calls that only programs make whose messages have notes; note.go has the notes of requests.

// Checks has the notes of messages. The engine uses the table with the lock held.
type Checks struct {
	mu         *lock.Mutex // of the engine
	table      notes.Table
	links      *links
	requests   *Requests
	unexpected *unexpectedStore
	waiters    *waiters
	poller     *poller
}

// Checks returns what compares messages with their receives; see Config.Checks.
func (e *Engine) Checks() *Checks { return &e.checks }

// SetNote sets the note of a persistent request that has not been started.
func (c *Checks) SetNote(h Handle, n *notes.Note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.r.setNote(&c.table, n)
}

// Sent returns the numbers of messages with notes that were sent to the processes.
func (c *Checks) Sent() []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.Sent(len(c.links.peers))
}

// Unfinished blocks until so many messages with notes have arrived from the processes. It returns
// an error if one of them was never received, or if an operation was never completed by a wait, or
// nil.
func (c *Checks) Unfinished(arrive []uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range arrive {
		for n != 0 && c.table.Arrived(int32(i)) < n {
			if err := c.poller.pollOnce(); err != nil {
				return err
			}
			c.waiters.yield()
		}
	}
	for m := range c.unexpected.noted {
		c.table.Lose(m.note, m.v.Rank)
	}
	if err := c.table.Lost(); err != nil {
		return err
	}
	for _, slab := range c.requests.slabs {
		for i := range slab {
			r := &slab[i]
			if r.flags&(noted|detached) == noted && (r.state == active || r.state == done) {
				own, _ := c.table.Of(r.index)
				return fmt.Errorf("a request was never completed by a wait or freed: that of %v", own)
			}
		}
	}
	return nil
}
