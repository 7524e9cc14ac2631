package coordinator

import (
	"fmt"
	"syscall"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"golang.org/x/sys/unix"
)

// failure is why a job failed.
type failure struct {
	rank   int // -1: it was no rank
	code   int // exit code of ibrun
	reason string
	killed bool  // somebody killed the rank, and not because the job was to end
	node   int   // where that was
	time   int64 // by node 0's clock, in nanoseconds since 1970
}

// precedes tells which of two faults came first, if the other was heard of first. What one node tells comes in order. On two
// nodes the times are of when a death was seen, late by what a busy machine takes; but to be killed is no answer to another's
// death.
func (f *failure) precedes(other *failure) bool {
	switch {
	case f.node == other.node:
		return false
	case f.killed != other.killed:
		return f.killed
	}
	return f.time < other.time
}

func newFailure(rank, code int, why string) *failure {
	return &failure{rank: rank, code: code, reason: why}
}

// failureTracker hears the events of a job in order and finds the first that makes it a failure. It is a pure state machine.
type failureTracker struct {
	ranks        []rankState
	exitCount    int  // ranks that have exited
	exitedEarly  int  // a rank that left without having spoken PMI, -1 as long as there is none
	endRequested bool // the user wants the job to end, so leaving early is no failure
}

type rankState struct {
	pid         int
	initialized bool // PMI, from init on
	finalized   bool
	exited      bool
}

func newFailureTracker(ranks int) *failureTracker {
	return &failureTracker{ranks: make([]rankState, ranks), exitedEarly: -1}
}

// allExited tells whether every rank has exited.
func (j *failureTracker) allExited() bool { return j.exitCount == len(j.ranks) }

// running returns the ranks that have not exited.
func (j *failureTracker) running() (ranks []int) {
	for rank := range j.ranks {
		if !j.ranks[rank].exited {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// mayWait tells whether the rank has begun to speak PMI and may be waiting for the others.
func (s *rankState) mayWait() bool { return s.initialized && !s.finalized && !s.exited }

// handleEvent takes in an event and returns the fault it is, or nil. Faults after the first are mostly its consequences.
func (j *failureTracker) handleEvent(e *protocol.Event) *failure {
	switch e.Kind {
	case protocol.EventStarted:
		for i, pid := range e.PIDs {
			j.ranks[e.Ranks[i]].pid = pid
		}
	case protocol.EventNotStarted:
		return newFailure(e.Rank, e.Code, e.Text)
	case protocol.EventInit:
		j.ranks[e.Rank].initialized = true
		if j.exitedEarly >= 0 && !j.endRequested {
			return exitedBefore("Init", j.exitedEarly, e.Rank)
		}
	case protocol.EventFinalize:
		j.ranks[e.Rank].finalized = true
	case protocol.EventAbort:
		why := fmt.Sprintf("called Abort with code %d", e.Code)
		if e.Text != "" {
			why += ": " + e.Text
		}
		return newFailure(e.Rank, abortExitCode(e.Code), why)
	case protocol.EventExit:
		if j.ranks[e.Rank].exited {
			return nil
		}
		j.ranks[e.Rank].exited = true
		j.exitCount++
		return j.handleExit(e)
	}
	return nil
}

func (j *failureTracker) handleExit(e *protocol.Event) *failure {
	s := &j.ranks[e.Rank]
	switch {
	case e.Signal != 0:
		sig := syscall.Signal(e.Signal)
		f := newFailure(e.Rank, exitcode.SignalBase+e.Signal, fmt.Sprintf("was killed by signal %d (%s)", e.Signal,
			unix.SignalName(sig)))
		f.killed = sig == unix.SIGKILL && !e.AfterEnd
		return f
	case e.Code != 0:
		return newFailure(e.Rank, e.Code, fmt.Sprintf("ended with exit code %d", e.Code))
	case j.endRequested || s.finalized:
		return nil
	}
	if !s.initialized {
		j.exitedEarly = e.Rank
	}
	for other := range j.ranks {
		switch o := &j.ranks[other]; {
		case s.initialized && !o.exited:
			return exitedBefore("Finalize", e.Rank, other)
		case !s.initialized && o.mayWait():
			return exitedBefore("Init", e.Rank, other)
		}
	}
	return nil
}

func exitedBefore(call string, rank, waiting int) *failure {
	return newFailure(rank, exitcode.Failed, fmt.Sprintf("left with exit code 0 before %s, and rank %d waits for it", call,
		waiting))
}

// abortExitCode makes an exit code that is a failure of what a rank gave to Abort.
func abortExitCode(code int) int {
	if code &= 0xff; code == 0 {
		return exitcode.Failed
	}
	return code
}
