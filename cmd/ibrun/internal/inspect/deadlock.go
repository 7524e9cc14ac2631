package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/ibrun/ibrun/perf/jobs"
)

// Waiting reports whether no rank continues by itself, as far as samples show it: every rank whose process runs has waited in
// package mpi for at least that long, and has begun and ended no call. Ranks that have finalized or exited do not count. A rank
// that computes or sleeps outside of package mpi, that has not initialised, that is stopped or cannot be read may continue. One
// that waits may have goroutines outside of MPI: see [MayRun].
func Waiting(ranks []jobs.Rank, after time.Duration) bool {
	waits := false
	for i := range ranks {
		r := &ranks[i]
		switch {
		case r.State == jobs.Finalized || r.State == jobs.Ended:
			continue
		case r.State != jobs.Running || r.Error != "" || len(r.Waits) == 0 || r.Quiet < after.Seconds():
			return false
		}
		waits = true
	}
	return waits
}

// Messages is what the ranks of a job have sent each other, as [perf.Snapshot] counts it.
type Messages struct {
	Sent, Arrived uint64
	// Unknown is why the numbers are not known: a rank cannot be read, has recorded nothing, or has not counted for some time. It
	// is about the first such rank, and "" if there is none.
	Unknown string
	// Left is set if ranks have finalized or exited: what was sent to them may never arrive.
	Left bool
}

// MessagesOf returns the messages of a job. These must be all of its ranks.
func MessagesOf(ranks []jobs.Rank) Messages {
	var m Messages
	for i := range ranks {
		r := &ranks[i]
		m.Sent, m.Arrived = m.Sent+r.Sent, m.Arrived+r.Arrived
		if m.Unknown == "" {
			m.Unknown = uncounted(r)
		}
		m.Left = m.Left || r.State == jobs.Finalized || r.State == jobs.Ended
	}
	return m
}

// uncounted returns why the messages of a rank are not known; "" if they are.
func uncounted(r *jobs.Rank) string {
	switch {
	case r.State == jobs.Unreachable || r.Error != "":
		return fmt.Sprintf("rank %d cannot be read", r.Rank)
	case r.State == jobs.Starting:
		return fmt.Sprintf("rank %d has recorded nothing", r.Rank)
	case r.Paused:
		return fmt.Sprintf("rank %d has switched off its recording for some time (Pcontrol)", r.Rank)
	}
	return ""
}

// Known reports whether the messages of all ranks are known.
func (m Messages) Known() bool { return m.Unknown == "" }

// None reports whether no message is on its way. Then only what a rank does, or what is outside of MPI, can end its wait.
func (m Messages) None() bool { return m.Known() && m.Sent == m.Arrived }

// CPU returns the processor time that all ranks have used, in seconds.
func CPU(ranks []jobs.Rank) (sum float64) {
	for i := range ranks {
		sum += ranks[i].CPU
	}
	return sum
}

// blockedStates are the states of goroutines that only another goroutine can wake. A receive from a channel and a select are not
// among them: a timer, a signal or a connection may wake them.
var blockedStates = map[string]bool{
	"chan send": true, "chan send (nil chan)": true, "chan receive (nil chan)": true, "select (no cases)": true,
	"sync.Mutex.Lock": true, "sync.RWMutex.Lock": true, "sync.RWMutex.RLock": true, "sync.WaitGroup.Wait": true,
	"sync.Cond.Wait": true, "semacquire": true,
}

// libraryPrefixes are the beginnings of the functions that start goroutines of the library, which wake none of the program.
var libraryPrefixes = [...]string{
	"github.com/ibrun/ibrun/mpi.", "github.com/ibrun/ibrun/mpi/internal/", "github.com/ibrun/ibrun/fabric/",
	"github.com/ibrun/ibrun/internal/", "github.com/ibrun/ibrun/perf", "github.com/ibrun/ibrun/verbs", "os/signal.", "runtime.",
}

// The functions in which goroutines wait in package mpi. The second calls the first, for a wait that a context.Context may end: a
// timer or a signal may then wake the goroutine.
const (
	waitFunction    = "github.com/ibrun/ibrun/mpi/internal/proto.(*waiters).await"
	contextFunction = "github.com/ibrun/ibrun/mpi/internal/proto.(*waiters).awaitStoppable"
)

// MayRun returns the first goroutine that may run although the rank waits in package mpi, or "" if there is none. stacks is what
// the Go runtime prints for all goroutines of the rank.
func MayRun(stacks string) string {
	for text := range strings.SplitSeq(strings.TrimSpace(stacks), "\n\n") {
		head, body, _ := strings.Cut(text, "\n")
		_, state, _ := strings.Cut(strings.TrimSuffix(head, "]:"), "[")
		state, _, _ = strings.Cut(state, ",")
		if blockedStates[state] || strings.Contains(body, waitFunction+"(") && !strings.Contains(body, contextFunction+"(") ||
			startedByLibrary(body) {
			continue
		}
		if lines := shortenStacks(text); len(lines) > 1 {
			return strings.TrimSuffix(head, ":") + " " + strings.TrimSpace(lines[1])
		}
		return strings.TrimSuffix(head, ":")
	}
	return ""
}

// startedByLibrary reports whether the library has started a goroutine.
func startedByLibrary(stack string) bool {
	_, creator, _ := strings.Cut(stack, "\ncreated by ")
	for _, prefix := range libraryPrefixes {
		if strings.HasPrefix(creator, prefix) {
			return true
		}
	}
	return false
}
