package processor

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/internal/ticks"
)

// A goroutine that waits yields its processor to the peers with sched_yield. That takes a
// microsecond if the other processes that want the processor wait as well. Beside a program that
// computes it often takes a slice of the scheduler, and a message that arrives meanwhile waits. A
// process that sleeps is better off then: when a message arrives for it, the scheduler mostly lets
// it run before the program that computes. So yields are timed. When slow ones have taken most of
// the time, goroutines sleep in place of yielding for some time.
//
// Sleeping has its price: a peer makes a system call to wake the process, which takes longer than a
// quick yield. And a slow yield is not lost if a peer has computed meanwhile, which rarely takes a
// whole slice.
//
// The constants decide only when slow yields end yielding. yieldsBeforeSleep in wait.go of package
// proto is the number of yields in vain after which a goroutine sleeps, unless the user has set how
// long it polls.

const (
	// slowYield is how long a yield takes at least if a program that does not wait had the
	// processor for a slice. The slice of Linux is 0.7 to 3 ms, more with more processors, and it
	// ends at the next tick of the kernel's clock, 1 to 4 ms apart.
	slowYield = 2 * time.Millisecond
	// slowTicks is less than the ticks of a slow yield: no counter has fewer than 500 in a
	// microsecond. With fewer ticks, a yield is quick, and the system's clock, which takes a
	// quarter of such a yield to read twice, is not read.
	slowTicks = 500 * int64(slowYield/time.Microsecond)
	// slowShare is the part of the time that slow yields take before goroutines pause yielding, as
	// 1/slowShare. It was measured on two processors, each of which runs a busy loop as well. It is
	// nearly 1 if many ranks are goroutines of one process, since a thread that yields keeps other
	// goroutines from running. It is 0.25 for a rank that computes between its messages; there
	// sleeping would save a fifth of the time. Without the busy loops it is 0.05, but now and then
	// 0.2, for 8 ranks that reduce 1 MiB, and these would take 1.7 times as long if they slept.
	slowShare = 2
	// yieldPause is how long goroutines do not yield then, as a multiple of the last yield's
	// duration. If others still compute after the pause, the next yield is slow and begins another
	// pause, so slow yields take at most a fiftieth of the time.
	yieldPause = 50
	// forget is the part of the sums of yielding that each slow yield removes, as 1/forget: older
	// yields count less.
	forget = 8
	// maxBetween is how much of the time between two slow yields counts at most. So a long time
	// without slow yields does not outweigh those that follow.
	maxBetween = 50 * time.Millisecond
)

// Yielder yields the processor to other processes, and decides when that is worthwhile. Its times
// are those of sinceStart. Any number of goroutines may use it.
type Yielder struct {
	// resume is the time when goroutines yield again; 0: they do. It is changed with mu, and read
	// without.
	resume atomic.Int64

	mu      sync.Mutex
	last    time.Duration // when the last slow yield or the last pause has ended
	slow    time.Duration // sum of the times that slow yields took; see forget
	between time.Duration // sum of the times between them, without pauses; see forget, maxBetween
}

var shared Yielder

// Shared returns the Yielder of all engines of this process, as they share its processors.
func Shared() *Yielder { return &shared }

var start, startTicks = time.Now(), ticks.Now()

// sinceStart returns the time since the program has started.
func sinceStart() time.Duration { return time.Since(start) }

// Yield is SchedYield, and measures it.
func (y *Yielder) Yield() {
	begin := ticks.Now()
	SchedYield()
	// The difference may be negative: the counters of two processors differ by a little.
	if took := int64(ticks.Now() - begin); took >= slowTicks {
		now := sinceStart()
		// The rate of the counter, in ticks per nanosecond.
		rate := float64(ticks.Now()-startTicks) / float64(now)
		y.Measured(now-time.Duration(float64(took)/rate), now)
	}
}

// Measured counts a yield from begin to end, which Yield has measured. It begins a pause if the
// yield is slow, and slow yields take most of the time.
func (y *Yielder) Measured(begin, end time.Duration) {
	if end-begin < slowYield {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.slow += end - begin - y.slow/forget
	// The difference is negative if another goroutine has yielded at the same time.
	y.between += min(max(begin-y.last, 0), maxBetween) - y.between/forget
	y.last = end
	if y.slow*(slowShare-1) > y.between {
		y.resume.Store(int64(end + yieldPause*(end-begin)))
	}
}

// Paused reports whether a goroutine should sleep in place of yielding. It does not read the clock
// unless a pause has begun.
func (y *Yielder) Paused() bool { return y.resume.Load() != 0 && y.pausedAt(sinceStart()) }

func (y *Yielder) pausedAt(now time.Duration) bool {
	if int64(now) < y.resume.Load() {
		return true
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if resume := y.resume.Load(); int64(now) < resume { // another goroutine has yielded meanwhile
		return true
	} else if resume != 0 {
		y.resume.Store(0)
		y.last = now
	}
	return false
}
