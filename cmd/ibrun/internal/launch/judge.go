package launch

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes of ibrun itself. A job that ran and failed has the code of the rank that failed first.
const (
	codeFailed        = 1 // wire-up, or ibrun itself
	codeUsage         = 2
	codeTimeout       = 124
	codeNotExecutable = 126
	codeNotFound      = 127
	codeSignal        = 128 // plus the number of the signal
)

// fault is why a job failed.
type fault struct {
	rank int // -1: it was no rank
	code int // exit code of ibrun
	why  string
	kill bool  // somebody killed the rank, and not because the job was to end
	node int   // where that was
	when int64 // by node 0's clock, in nanoseconds since 1970
}

// before tells which of two faults came first, if the other was heard of first. What one node tells comes in order. On two nodes
// the times are of when a death was seen, late by what a busy machine takes; but to be killed is no answer to another's death.
func (f *fault) before(other *fault) bool {
	switch {
	case f.node == other.node:
		return false
	case f.kill != other.kill:
		return f.kill
	}
	return f.when < other.when
}

func newFault(rank, code int, why string) *fault { return &fault{rank: rank, code: code, why: why} }

// judge hears the events of a job in order and finds the first that makes it a failure. It is a pure state machine.
type judge struct {
	ranks []rankState
	left  int  // ranks that have exited
	early int  // a rank that left without having spoken PMI, -1 as long as there is none
	asked bool // the user wants the job to end, so leaving early is no failure
}

type rankState struct {
	pid       int
	spoke     bool // PMI, from init on
	finalized bool
	gone      bool
}

func newJudge(ranks int) *judge { return &judge{ranks: make([]rankState, ranks), early: -1} }

// allLeft tells whether every rank has exited.
func (j *judge) allLeft() bool { return j.left == len(j.ranks) }

// running returns the ranks that have not exited.
func (j *judge) running() (ranks []int) {
	for rank := range j.ranks {
		if !j.ranks[rank].gone {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// waits tells whether the rank has begun to speak PMI and may be waiting for the others.
func (s *rankState) waits() bool { return s.spoke && !s.finalized && !s.gone }

// hear takes in an event and returns the fault it is, or nil. Faults after the first are mostly its consequences.
func (j *judge) hear(e *event) *fault {
	switch e.Kind {
	case evStarted:
		for i, pid := range e.PIDs {
			j.ranks[e.Ranks[i]].pid = pid
		}
	case evNotStarted:
		return newFault(e.Rank, e.Code, e.Text)
	case evInit:
		j.ranks[e.Rank].spoke = true
		if j.early >= 0 && !j.asked {
			return leftBefore("Init", j.early, e.Rank)
		}
	case evFinalize:
		j.ranks[e.Rank].finalized = true
	case evAbort:
		why := fmt.Sprintf("called Abort with code %d", e.Code)
		if e.Text != "" {
			why += ": " + e.Text
		}
		return newFault(e.Rank, exitCode(e.Code), why)
	case evExit:
		if j.ranks[e.Rank].gone {
			return nil
		}
		j.ranks[e.Rank].gone = true
		j.left++
		return j.exited(e)
	}
	return nil
}

func (j *judge) exited(e *event) *fault {
	s := &j.ranks[e.Rank]
	switch {
	case e.Signal != 0:
		sig := syscall.Signal(e.Signal)
		f := newFault(e.Rank, codeSignal+e.Signal, fmt.Sprintf("was killed by signal %d (%s)", e.Signal, unix.SignalName(sig)))
		f.kill = sig == unix.SIGKILL && !e.Told
		return f
	case e.Code != 0:
		return newFault(e.Rank, e.Code, fmt.Sprintf("ended with exit code %d", e.Code))
	case j.asked || s.finalized:
		return nil
	}
	if !s.spoke {
		j.early = e.Rank
	}
	for other := range j.ranks {
		switch o := &j.ranks[other]; {
		case s.spoke && !o.gone:
			return leftBefore("Finalize", e.Rank, other)
		case !s.spoke && o.waits():
			return leftBefore("Init", e.Rank, other)
		}
	}
	return nil
}

func leftBefore(call string, rank, waiting int) *fault {
	return newFault(rank, codeFailed, fmt.Sprintf("left with exit code 0 before %s, and rank %d waits for it", call, waiting))
}

// exitCode makes an exit code that is a failure of what a rank gave to Abort.
func exitCode(code int) int {
	if code &= 0xff; code == 0 {
		return codeFailed
	}
	return code
}
