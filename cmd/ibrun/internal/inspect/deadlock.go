package inspect

import (
	"strings"
	"time"

	"github.com/ibrun/ibrun/perf/jobs"
)

// minTransfer is the length from which a message may be in transit for so long that both of its ranks seem to wait.
const minTransfer = 1 << 20

// Deadlocked reports whether no rank can continue by itself, as far as samples show it: every rank whose process runs has
// waited in package mpi for at least that long, and has begun and ended no call. Ranks that have finalized or exited do not
// count. A rank that computes or sleeps outside of package mpi, that has not initialised, that is stopped or cannot be read
// may continue, and so may two ranks of a long message. A rank that waits may have goroutines outside of MPI: see [MayRun].
func Deadlocked(ranks []jobs.Rank, after time.Duration) bool {
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
	return waits && !transferring(ranks)
}

// transferring reports whether a rank receives a long message from a rank that sends one to it.
func transferring(ranks []jobs.Rank) bool {
	type link struct{ from, to, tag int }
	sends := map[link]bool{}
	for i := range ranks {
		for _, w := range ranks[i].Waits {
			if preposition(w.Op) == "to" && w.Bytes >= minTransfer {
				sends[link{ranks[i].Rank, w.Peer, w.Tag}] = true
			}
		}
	}
	for i := range ranks {
		for _, w := range ranks[i].Waits {
			if preposition(w.Op) == "from" && w.Bytes >= minTransfer && sends[link{w.Peer, ranks[i].Rank, w.Tag}] {
				return true
			}
		}
	}
	return false
}

// InTransit reports whether ranks have sent more bytes than others have received, and none of these bytes are stored as
// unexpected messages. So a message may be on its way, in a network that loses packets for instance, or was dropped.
func InTransit(ranks []jobs.Rank) bool {
	var out, in, unexpected uint64
	for i := range ranks {
		out, in, unexpected = out+ranks[i].BytesOut, in+ranks[i].BytesIn, unexpected+ranks[i].Unexpected
	}
	return out > in && unexpected == 0
}

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
	waitFunction    = "github.com/ibrun/ibrun/mpi/internal/proto.(*Engine).await"
	contextFunction = "github.com/ibrun/ibrun/mpi/internal/proto.(*Engine).awaitStoppable"
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
