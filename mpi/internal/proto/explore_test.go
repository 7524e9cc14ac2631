package proto

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// An exploration runs a few goroutines that use engines in all schedules of a kind. Everything that
// goroutines decide while they wait they decide with the lock of the engine held. So a schedule is
// the order in which goroutines get the lock: of all goroutines one runs, from when it gets a lock
// until it wants one again, or blocks. Another choice at each step is that time passes, so that a
// timer of an engine fires. Otherwise it passes when all goroutines are blocked.
//
// A policy says which goroutine is next, and schedules deviate from it at a few steps. Most faults
// of concurrency need few deviations: see Emmi, Qadeer and Rakamarić, Delay-bounded scheduling,
// POPL 2011.

// policy is the number of steps that a goroutine makes in a row while others want to go on.
type policy int

const (
	turnByTurn policy = 1
	inARow     policy = 6 // not without a limit: a goroutine that tests for completion in a loop never blocks
)

// A schedule in which nothing happens for this long has lost a wake-up. It is shorter than
// watchDelay, after which a process sends messages that could hide that.
const stuckAfter = watchDelay / 2

// endless is the number of steps of a schedule that does not end.
const endless = 2000

// errStuck ends the goroutines of a schedule that has failed.
var errStuck = errors.New("the schedule is stuck")

// execution is one schedule.
type execution struct {
	t      *testing.T
	policy policy
	plan   []int // what is chosen at each step; 0, which is what the policy says, at all later steps
	steps  []step
	es     []*Engine
	failed string // why the schedule has failed
	// aborted says that the engines have failed, which ends the goroutines.
	aborted bool

	order  []*worker     // all, the next one first
	last   *worker       // has made the last step
	row    int           // how many steps it has made in a row
	waited time.Duration // how long no goroutine has wanted a lock

	mu      sync.Mutex // protects what follows
	builder uint64     // the goroutine that starts those of the scenario; 0: it has started all
	workers map[uint64]*worker
	arrived []*worker // since the last step, those that were never seen before
	left    int       // goroutines of the scenario that have not ended
}

// step is what was chosen at a step.
type step struct {
	options, chosen int
	worker          *worker // nil: time passes
	stack           [8]uintptr
}

// worker is a goroutine.
type worker struct {
	name  string        // of the function with which it began
	wants bool          // a lock; else it is blocked, or has ended
	turn  chan struct{} // receives when it gets it
	stack [8]uintptr    // where it wants it
}

// scenario starts goroutines with x.run, which use x.es.
type scenario func(x *execution)

// explore runs a scenario with two engines in all schedules that deviate from the policy at no more
// than so many steps. It returns their number.
func explore(t *testing.T, p policy, deviations int, s scenario) int {
	t.Helper()
	var plan []int
	for schedules := 1; ; schedules++ {
		x := runSchedule(t, p, plan, s)
		if plan = x.next(deviations); plan == nil || t.Failed() {
			return schedules
		}
	}
}

// exploreUpTo explores all schedules with a number of deviations, then with one more, and so on,
// while their number is probably at most limit. It returns the number of schedules and the number
// of deviations of the last round, which is -1 if it added none.
func exploreUpTo(t *testing.T, p policy, deviations, limit int, s scenario) (schedules, last int) {
	t.Helper()
	single := explore(t, p, 1, s)
	if schedules = single; deviations > 1 && !t.Failed() {
		schedules = explore(t, p, deviations, s)
	}
	for !t.Failed() && schedules*single/(deviations+1) <= limit {
		deviations++
		before := schedules
		if schedules = explore(t, p, deviations, s); schedules == before {
			return schedules, -1
		}
	}
	return schedules, deviations
}

// exploreSome runs a scenario in n random schedules that deviate from the policy at several steps.
func exploreSome(t *testing.T, p policy, n int, s scenario) {
	t.Helper()
	if t.Failed() {
		return
	}
	random := rand.New(rand.NewPCG(soaktest.Seed(t), 0))
	plan := []int(nil)
	for range 1 + n { // the first one does not deviate; it shows how many steps there are
		x := runSchedule(t, p, plan, s)
		if t.Failed() {
			return
		}
		plan = make([]int, len(x.steps))
		for range 2 + random.IntN(7) {
			plan[random.IntN(len(plan))] = 1 + random.IntN(3)
		}
	}
}

// runSchedule runs a scenario with two engines in one schedule.
func runSchedule(t *testing.T, p policy, plan []int, s scenario) *execution {
	t.Helper()
	x := &execution{policy: p, plan: plan}
	synctest.Test(t, func(t *testing.T) {
		x.t, x.workers = t, map[uint64]*worker{}
		x.builder = goroutineID()
		x.open(2)
		s(x)
		x.mu.Lock()
		x.builder = 0
		x.mu.Unlock()
		x.schedule()
	})
	return x
}

// next returns the plan of the schedule that follows, or nil.
func (x *execution) next(deviations int) []int {
	used := make([]int, len(x.steps)+1) // deviations before each step
	for i, s := range x.steps {
		used[i+1] = used[i] + min(s.chosen, 1)
	}
	for i := len(x.steps) - 1; i >= 0; i-- {
		if s := x.steps[i]; s.chosen+1 < s.options && used[i] < deviations {
			plan := make([]int, i+1)
			for k := range i {
				plan[k] = x.steps[k].chosen
			}
			plan[i] = s.chosen + 1
			return plan
		}
	}
	return nil
}

func (x *execution) open(n int) {
	tr := mem.NewHub(n).Transport()
	for i := range n {
		waker := NewWaker()
		d, err := tr.Open(x.t.Context(), &fabric.Config{Self: i, Size: n, Wake: waker.Wake})
		if err != nil {
			x.t.Fatal(err)
		}
		e, err := New(Config{Domain: d, Self: i, Size: n, Waker: waker, Oversubscribed: true})
		if err != nil {
			x.t.Fatal(err)
		}
		e.waiters.maxYields, e.waiters.takeOver, e.waiters.oneProcessor = 1, 1, false
		e.mu.Control(x.await)
		x.es = append(x.es, e)
	}
}

// run starts a goroutine of the scenario, which must return nil.
func (x *execution) run(name string, f func() error) {
	x.mu.Lock()
	x.left++
	x.mu.Unlock()
	go func() {
		x.mu.Lock()
		x.add(goroutineID(), name)
		x.mu.Unlock()
		err := f()
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.left--; err != nil {
			x.failed = cmp.Or(x.failed, fmt.Sprintf("%s: %v", name, err))
		}
	}()
	synctest.Wait() // so that the goroutines of a scenario have an order
}

// add adds the goroutine with a number. The caller must hold x.mu.
func (x *execution) add(n uint64, name string) *worker {
	w := &worker{name: name, turn: make(chan struct{})}
	x.workers[n] = w
	x.arrived = append(x.arrived, w)
	return w
}

// await blocks until step has given the mutex to the calling goroutine.
func (x *execution) await() {
	n := goroutineID()
	x.mu.Lock()
	if n == x.builder { // the scenario itself
		x.mu.Unlock()
		return
	}
	w := x.workers[n]
	if w == nil {
		w = x.add(n, entry())
	}
	w.wants = true
	runtime.Callers(4, w.stack[:])
	x.mu.Unlock()
	<-w.turn
}

// schedule lets the goroutines run until all have ended and the engines are closed.
func (x *execution) schedule() {
	for closing := false; ; {
		ready, left := x.wanting()
		switch {
		case len(x.steps) >= 3*endless:
			x.giveUp()
		case len(x.steps) >= endless && !x.aborted:
			x.fail("it does not end")
		case len(ready) != 0:
			x.step(ready)
		case left != 0 && x.waited < stuckAfter || x.waited < 2*maxBackgroundDelay: // what engines still do ends, too
			x.pass()
		case left != 0:
			x.fail("no goroutine goes on")
		case !closing:
			closing = true
			x.checkIdle()
			x.run("Close", x.close)
		default:
			if x.failed != "" {
				x.t.Errorf("%s\nSchedule %v:\n%s", x.failed, x.plan, x)
			}
			return
		}
	}
}

// wanting returns the goroutines that want a lock, when all others are blocked, and how many of the
// scenario have not ended.
func (x *execution) wanting() (ready []*worker, left int) {
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	slices.SortStableFunc(x.arrived, func(a, b *worker) int { return strings.Compare(a.name, b.name) })
	x.order = append(x.arrived, x.order...) // as the scheduler of Go, which runs a goroutine that was started next
	x.arrived = nil
	for _, w := range x.order {
		if w.wants {
			ready = append(ready, w)
		}
	}
	return ready, x.left
}

// pass lets so much time pass that timers of the background fire.
func (x *execution) pass() {
	x.waited += maxBackgroundDelay
	waittest.Elapse(x.t, maxBackgroundDelay, "timers fire")
}

// step gives a lock to one of the goroutines that want one, or lets time pass if a timer is armed.
func (x *execution) step(ready []*worker) {
	s := step{options: len(ready)}
	if slices.ContainsFunc(x.es, func(e *Engine) bool { return e.waiters.background.armed }) {
		s.options++
	}
	if i := len(x.steps); i < len(x.plan) {
		s.chosen = min(x.plan[i], s.options-1) // fewer, if the runtime has changed the order of two goroutines
	}
	if s.chosen == len(ready) {
		x.steps = append(x.steps, s)
		x.pass()
		return
	}
	w := ready[s.chosen]
	s.worker, s.stack = w, w.stack
	x.steps = append(x.steps, s)
	x.waited = 0
	if x.row++; w != x.last {
		x.row, x.last = 1, w
	}
	i := slices.Index(x.order, w)
	x.order = slices.Delete(x.order, i, i+1)
	if x.row < int(x.policy) {
		x.order = slices.Insert(x.order, 0, w)
	} else {
		x.order, x.row = append(x.order, w), 0
	}
	w.wants = false
	w.turn <- struct{}{}
}

// giveUp ends the tests: the goroutines of a schedule that has failed do not end even when the
// engines have failed.
func (x *execution) giveUp() { panic("the schedule cannot be ended: " + x.failed + "\n" + x.String()) }

// fail records why the schedule has failed, and lets the engines fail, which ends the goroutines.
func (x *execution) fail(why string) {
	if x.aborted {
		x.giveUp()
	}
	x.failed, x.aborted, x.waited = cmp.Or(x.failed, why), true, 0
	x.run("Abort", func() error {
		for _, e := range x.es {
			e.Processes().Abort(errStuck)
		}
		return nil
	})
}

// checkIdle checks that nothing is left in the engines of goroutines that waited.
func (x *execution) checkIdle() {
	for i, e := range x.es {
		w := &e.waiters
		background, server := e.waiters.background.running, e.requests.channels.ended != nil
		if w.polling || w.sleeping || w.woken+w.parked.len+len(w.watchers) != 0 || background || server {
			x.failed = cmp.Or(x.failed, fmt.Sprintf("the end of engine %d: polling %v, sleeping %v, woken %d, parked %d, watchers %d, "+
				"background %v, channels %v", i, w.polling, w.sleeping, w.woken, w.parked.len, len(w.watchers), background, server))
		}
	}
}

// close closes the engines. Nothing else runs meanwhile.
func (x *execution) close() error {
	var errs []error
	for _, e := range x.es {
		if !e.departures.closed { // else the scenario has closed it
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}

// String shows each step: the goroutine, and where it wanted the lock that it gets.
func (x *execution) String() string {
	var b strings.Builder
	for i, s := range x.steps {
		if s.worker == nil {
			fmt.Fprintf(&b, "%3d %d of %d time passes\n", i, s.chosen, s.options)
			continue
		}
		fmt.Fprintf(&b, "%3d %d of %d %-20s", i, s.chosen, s.options, s.worker.name)
		frames := runtime.CallersFrames(s.stack[:])
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if name := f.Function[strings.LastIndexByte(f.Function, '.')+1:]; strings.Contains(f.File, "/proto/") && name != "lock" {
				fmt.Fprintf(&b, " %s:%d", name, f.Line)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// goroutineID returns the number of the calling goroutine.
func goroutineID() uint64 {
	var b [40]byte
	text := string(b[:runtime.Stack(b[:], false)]) // goroutine 12 [running]: ...
	n, err := strconv.ParseUint(strings.Fields(text)[1], 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// entry returns the name of the function with which the calling goroutine began.
func entry() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	name := ""
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); !strings.HasPrefix(f.Function, "runtime.") {
			name = f.Function
		}
	}
	return name[strings.LastIndexByte(name, '/')+1:]
}
