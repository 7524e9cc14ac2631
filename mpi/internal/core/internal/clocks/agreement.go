package clocks

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/clocksync"
)

// agreement determines whether Wtime is one time for all processes now: whether no two clocks can
// differ by more than half of the fastest round trip. Leaders send the bounds of their clocks to
// rank 0 with every ping. Rank 0 answers with the error that the leader's clock may have. A process
// compares that with the present bound of its own clock, so it also notices that corrections no
// longer arrive. The zero value is that of processes that all read one source.
type agreement struct {
	several bool // there is more than one source
	// allowed is the error that the clock of this process may have, in nanoseconds. It is negative
	// if the others differ too much. Rank 0 does not use it.
	allowed atomic.Int64

	mu     sync.Mutex
	clocks []leaderState // of the leaders; in rank 0
	told   bool          // the last state sent to the processes with rank 0's source; in rank 0
}

// leaderState describes the clock of a leader.
type leaderState struct {
	rank      int
	bound     clocksync.Bound // its At is a common time
	roundTrip int64           // the fastest one to rank 0, in nanoseconds
}

// allowedError returns the error that the clock of a rank may have at a common time. No two clocks
// are to differ by more than half of the fastest round trip. The result is negative if two others
// may.
func allowedError(clocks []leaderState, rank int, at int64) int64 {
	fastest, worst, second := int64(math.MaxInt64), int64(0), int64(0)
	for _, c := range clocks {
		fastest = min(fastest, c.roundTrip)
		if c.rank == rank {
			continue
		}
		x := c.bound.Time(at)
		worst, second = max(worst, x), max(second, min(worst, x))
	}
	if worst+second >= fastest/2 {
		return -1
	}
	return fastest/2 - worst
}

// Agrees reports whether Wtime is one time for all processes now.
func (k *Sync) Agrees() bool {
	a := &k.agreement
	switch {
	case !a.several:
		return true
	case k.role != roleReference:
		return k.Clock.Bound().Error < a.allowed.Load()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return allowedError(a.clocks, 0, k.Clock.Now()) > 0
}

// Ping stores the bound of a leader's clock, and returns the error that this clock may have until
// the next cycle has ended.
func (k *Sync) Ping(peer int, bound, roundTrip uint64) (answer uint64) {
	a := &k.agreement
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.clocks, func(c leaderState) bool { return c.rank == peer })
	if i < 0 || roundTrip == 0 || roundTrip > math.MaxInt64 { // the clocks have not started
		return encodeAllowed(-1)
	}
	now := k.Clock.Now()
	a.clocks[i].bound, a.clocks[i].roundTrip = clocksync.DecodeBound(now, bound), int64(roundTrip)
	_, length := clocksync.NextCycle(now - k.epoch)
	return encodeAllowed(allowedError(a.clocks, peer, now+2*length))
}

// State stores the error that the clock of this process may have. Rank 0 sends it to the processes
// with its source, a leader to its followers.
func (k *Sync) State(peer int, w uint64) bool {
	from := k.leader // 0 if this process has rank 0's source
	if k.role != roleNone && k.role != roleFollower || !k.agreement.several || peer != from {
		return false
	}
	k.agreement.allowed.Store(decodeAllowed(w))
	return true
}

// encodeAllowed returns an allowed error as a word: 0 for a negative one.
func encodeAllowed(x int64) uint64 { return uint64(max(x+1, 0)) }

func decodeAllowed(w uint64) int64 { return int64(min(w, math.MaxInt64)) - 1 }

// report sends the state to the processes that read rank 0's source if it has changed since the
// last call.
func (k *Sync) report() error {
	a := &k.agreement
	agrees := k.Agrees()
	if agrees == a.told {
		return nil
	}
	a.told = agrees
	w := encodeAllowed(-1)
	if agrees {
		w = encodeAllowed(1)
	}
	for _, peer := range k.followers {
		if err := k.engine.Clock().SendState(peer, w); err != nil {
			return err
		}
	}
	return nil
}

// startAgreement sets the first state from what all processes have sent: see Begin.
func (k *Sync) startAgreement(self int, clocks []leaderState) {
	a := &k.agreement
	a.several = true
	now := k.Clock.Now()
	for i := range clocks {
		clocks[i].bound.At = now
	}
	if self == 0 {
		a.clocks = clocks
	}
	mine := self
	if k.role == roleFollower {
		mine = k.leader
	}
	a.allowed.Store(allowedError(clocks, mine, now+2*clocksync.FirstCycle))
	a.told = allowedError(clocks, 0, now+2*clocksync.FirstCycle) > 0
}
