package coordinator

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/printable"
)

// failure is a reason why a job failed.
type failure struct {
	rank   int // the rank that failed; -1: not a rank
	code   int // the exit code of ibrun
	reason string
	msg    string        // reason without what differs from case to case
	attrs  message.Attrs // what differs
	lost   bool          // the connection to the node was lost; reason is not set yet
	// started means that the command has ended whose streams are the connection to the node. What the node has sent before may
	// say why, and be received later.
	started bool
	silent  bool // the user has closed the reading end of the output: nothing is printed
	kind    failureKind
	node    int   // the node of the failure
	time    int64 // when it happened or was noticed first, by the coordinator's clock, in nanoseconds since 1970
}

// failureKind orders failures by what they can be a consequence of. A higher kind explains the lower ones.
type failureKind int

const (
	// reaction is the failure of a rank that had noticed that another process of the job was gone.
	reaction failureKind = iota - 1
	// ownFailure is any other failure of a rank, or of a program. It may still be a reaction: not every program notices failures
	// by package mpi.
	ownFailure
	// death is a failure that nothing in other processes of the job causes: a rank was killed by SIGKILL or could not be
	// started, an agent, a watcher or an ibrun has died, or a node is lost.
	death
)

// reactionTime is how long a failure may be noticed after its consequences: a busy machine may notice late, and the clocks of
// two nodes are compared with some error.
const reactionTime = time.Second

// precedes reports whether f is the reason for the failure other, although other was received first. Events of one node are
// received in order, but for the end of the command that has started it. Of failures on two nodes the one of the higher kind is
// the reason, unless it happened too late for that; of two failures of the same kind it is the earlier one.
func (f *failure) precedes(other *failure) bool {
	switch {
	case f.node == other.node:
		return other.started && !f.started && !f.lost
	case f.kind > other.kind:
		return f.explains(other)
	case f.kind < other.kind:
		return !other.explains(f)
	}
	return f.time < other.time
}

// explains reports whether f, which is of a higher kind, can be the reason for another failure.
func (f *failure) explains(other *failure) bool { return f.time < other.time+int64(reactionTime) }

// newFailure returns the failure of a rank.
func newFailure(rank, code int, msg, why string, a message.Attrs) *failure {
	return &failure{rank: rank, code: code, msg: msg, reason: why, attrs: a}
}

// message returns the message that the job has failed for this reason. rank is the text that names the rank that failed; it is
// not used if no rank did.
func (f *failure) message(rank string) message.Message {
	m := message.Message{Level: slog.LevelError, Msg: f.msg, Attrs: f.attrs}
	m.Text = f.reason
	if f.rank >= 0 {
		m.Text = rank + " " + f.reason
	}
	return m
}

// markReaction sets the kind of the failure of a rank that had noticed that another process is gone.
func (f *failure) markReaction(e *protocol.Event) {
	if e.LostPeer && f.kind == ownFailure {
		f.kind = reaction
	}
}

// afterLostOutput describes the failure of a rank whose output cannot be written. why is the reason, empty if the user has closed
// the reading end. A rank that then writes gets SIGPIPE: the lost output is the failure.
func (f *failure) afterLostOutput(e *protocol.Event, why string) {
	const brokenPipe = exitcode.SignalBase + int(unix.SIGPIPE)
	if e.Signal == int(unix.SIGPIPE) || e.Code == brokenPipe { // also if a shell has started it
		if f.code, f.silent = exitcode.Failed, why == ""; f.silent {
			f.code = brokenPipe
		}
	}
	if why != "" {
		f.reason += ", after its output was lost: " + why
		f.attrs.Error = cmp.Or(f.attrs.Error, "its output was lost: "+why)
	}
}

// failureTracker processes the events of a job in order and finds those that make the job fail. It is a pure state machine.
type failureTracker struct {
	ranks        []rankState
	exitCount    int  // the number of ranks that have exited
	exitedEarly  int  // a rank that has exited without initializing PMI; -1: none
	endRequested bool // the user wants the job to end, so an early exit is not a failure
}

type rankState struct {
	pid         int
	initialized bool // PMI was initialized
	finalized   bool
	exited      bool
}

func newFailureTracker(ranks int) *failureTracker {
	return &failureTracker{ranks: make([]rankState, ranks), exitedEarly: -1}
}

// allExited reports whether every rank has exited.
func (t *failureTracker) allExited() bool { return t.exitCount == len(t.ranks) }

// running returns the ranks that have not exited.
func (t *failureTracker) running() (ranks []int) {
	for rank := range t.ranks {
		if !t.ranks[rank].exited {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// mayWait reports whether the rank may be waiting for others: it has initialized PMI, has not finalized and has not exited.
func (s *rankState) mayWait() bool { return s.initialized && !s.finalized && !s.exited }

// handleEvent processes an event and returns the failure that it shows, or nil. Failures after the first are mostly its
// consequences.
func (t *failureTracker) handleEvent(e *protocol.Event) *failure {
	switch e.Kind {
	case protocol.EventStarted:
		for i, pid := range e.PIDs {
			t.ranks[e.Ranks[i]].pid = pid
		}
	case protocol.EventNotStarted:
		f := newFailure(e.Rank, e.Code, "a rank could not be started", e.Text, message.Attrs{Error: e.Text})
		f.kind = death
		return f
	case protocol.EventInit:
		t.ranks[e.Rank].initialized = true
		if t.exitedEarly >= 0 && !t.endRequested {
			return exitedBefore("Init", t.exitedEarly, e.Rank)
		}
	case protocol.EventFinalize:
		t.ranks[e.Rank].finalized = true
	case protocol.EventAbort:
		why := fmt.Sprintf("called Abort(%d)", e.Code)
		if e.Text != "" && !strings.HasSuffix(e.Text, why) { // package mpi sends the call itself as text
			why += ": " + printable.Line(e.Text)
		}
		f := newFailure(e.Rank, abortExitCode(e.Code), "a rank has called Abort", why, message.Attrs{AbortCode: &e.Code, Error: e.Text})
		f.markReaction(e)
		return f
	case protocol.EventInvalidPMI:
		return newFailure(e.Rank, exitcode.Failed, "a rank has violated the protocol PMI-1", e.Text, message.Attrs{Error: e.Text})
	case protocol.EventExit:
		if t.ranks[e.Rank].exited {
			return nil
		}
		t.ranks[e.Rank].exited = true
		t.exitCount++
		f := t.handleExit(e)
		if f == nil {
			return nil
		}
		f.markReaction(e)
		if e.LastCall != "" {
			f.reason += "; " + e.LastCall
			f.attrs.Call = e.LastCall
		}
		return f
	}
	return nil
}

func (t *failureTracker) handleExit(e *protocol.Event) *failure {
	s := &t.ranks[e.Rank]
	switch {
	case e.Signal != 0:
		sig := syscall.Signal(e.Signal)
		why := fmt.Sprintf("was killed by signal %d (%s)", e.Signal, unix.SignalName(sig))
		if e.Text != "" {
			why += ": " + e.Text
		}
		f := newFailure(e.Rank, exitcode.SignalBase+e.Signal, "a rank was killed by a signal", why,
			message.Attrs{Signal: e.Signal, SignalName: unix.SignalName(sig), Error: e.Text})
		if sig == unix.SIGKILL && !e.AfterEnd {
			f.kind = death
		}
		return f
	case e.Code != 0:
		why := fmt.Sprintf("ended with exit code %d", e.Code)
		if e.Text != "" {
			why += ": " + e.Text
		}
		return newFailure(e.Rank, e.Code, "a rank has failed", why, message.Attrs{RankExitCode: &e.Code, Error: e.Text})
	case t.endRequested || s.finalized:
		return nil
	}
	if !s.initialized {
		t.exitedEarly = e.Rank
	}
	for other := range t.ranks {
		switch o := &t.ranks[other]; {
		case s.initialized && !o.exited:
			return exitedBefore("Finalize", e.Rank, other)
		case !s.initialized && o.mayWait():
			return exitedBefore("Init", e.Rank, other)
		}
	}
	return nil
}

func exitedBefore(call string, rank, waiting int) *failure {
	return newFailure(rank, exitcode.Failed, "a rank has exited without calling "+call,
		fmt.Sprintf("exited (code 0) without calling %s, while rank %d was waiting for it", call, waiting),
		message.Attrs{RankExitCode: new(0), PeerRank: &waiting})
}

// abortExitCode returns the exit code for a code that was passed to Abort. It is never 0.
func abortExitCode(code int) int {
	if code &= 0xff; code == 0 {
		return exitcode.Failed
	}
	return code
}
