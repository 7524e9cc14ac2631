package mpitest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/perf"
)

// defaultDeadlock is how long all ranks wait for each other before a world fails, unless Options.Deadlock is set.
const defaultDeadlock = 10 * time.Second

// errDeadlock is the failure of a world whose ranks wait for each other.
var errDeadlock = errors.New("deadlock")

// deadlockWatch fails a world whose ranks wait for each other.
type deadlockWatch struct {
	world *world
	after time.Duration

	mu      sync.Mutex
	running map[int]*mpi.Process // the ranks that have not returned, by rank; nil: it is in Init

	events uint64 // in virtual time: the number of events when the ranks were last looked at
	last   []wait // of the sample before
	equal  int    // number of samples before that were equal to it
}

// samples is how many samples in a row, after the first one, have to be equal. Samples are counted, and not time: while this
// program does not run, the ranks do not run either.
const samples = 10

// wait is a rank that waits in package mpi: how many calls it has ended, how many messages it has sent and received, and the
// operations that it waits in. A collective of many ranks has many messages.
type wait struct {
	rank     int
	calls    uint64
	messages uint64
	ops      []perf.Current
}

// add adds a rank that runs; remove removes it.
func (d *deadlockWatch) add(rank int, p *mpi.Process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running[rank] = p
}

func (d *deadlockWatch) remove(rank int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, rank)
}

// run samples the ranks until done is closed.
func (d *deadlockWatch) run(done <-chan struct{}) {
	tick := time.NewTicker(d.after / samples)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if d.deadlocked() {
				d.fail()
				return
			}
		}
	}
}

// sample returns the waits of all ranks that run; nil unless all of them wait.
func (d *deadlockWatch) sample() (all []wait) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for rank, p := range d.running {
		if p == nil {
			return nil
		}
		s, err := p.Recorded()
		if err != nil || s == nil || len(s.Current) == 0 {
			return nil
		}
		x := wait{rank: rank, ops: s.Current}
		x.calls, _ = s.Calls()
		for _, t := range s.Traffic {
			x.messages += t.Messages
		}
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b wait) int { return a.rank - b.rank })
	return all
}

// deadlocked reports whether all ranks have waited in the same operations for long enough.
func (d *deadlockWatch) deadlocked() bool {
	if c := d.world.cluster; c != nil { // this is exact, and does not look at thousands of ranks
		if n := c.hub.Events(); n != d.events {
			d.events, d.last, d.equal = n, nil, 0
			return false
		}
	}
	all := d.sample()
	same := slices.EqualFunc(all, d.last, func(a, b wait) bool {
		return a.rank == b.rank && a.calls == b.calls && a.messages == b.messages && slices.Equal(a.ops, b.ops)
	})
	if all == nil || !same {
		d.last, d.equal = all, 0
		return false
	}
	d.equal++
	return d.equal >= samples
}

// fail fails the world with the hang view, and ends the calls of all ranks.
func (d *deadlockWatch) fail() {
	var text strings.Builder
	for _, x := range d.last {
		for _, op := range x.ops {
			fmt.Fprintf(&text, "\n  rank %d: in %v", x.rank, op.Op)
			if op.Peer >= 0 && !op.Op.IsCollective() {
				fmt.Fprintf(&text, ", with rank %d", op.Peer)
			}
			if op.Tag >= 0 && !op.Op.IsCollective() {
				fmt.Fprintf(&text, ", tag %d", op.Tag)
			}
			if op.Where != "" {
				fmt.Fprintf(&text, ", at %s", op.Where)
			}
		}
	}
	d.world.failAll(fmt.Errorf("%w: every rank has waited for another for %v:%s", errDeadlock, d.after, text.String()))
	d.mu.Lock()
	stuck := make([]*mpi.Process, 0, len(d.running))
	for _, p := range d.running {
		stuck = append(stuck, p)
	}
	d.mu.Unlock()
	for _, p := range stuck {
		_ = p.Abort(1) // its result is the failure that has been recorded
	}
}
