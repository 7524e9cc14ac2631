package monitor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/perf/jobs"
)

// deadlockWatch finds out that all ranks wait for each other, and reports it once for each time that this happens.
type deadlockWatch struct {
	m     *Monitor
	after time.Duration // how long they must have waited
	every time.Duration // between two samples
	ends  bool          // a deadlock ends the job
	// messages are those of the sample before. Nothing is on its way if they are the same, and as many have arrived as were sent:
	// the ranks are not read at the same time. What is on its way arrives, however slow the network is, or its receiver is lost.
	messages inspect.Messages
	// transit is how much longer they must have waited if messages to ranks that have left may have been dropped. In that time any
	// other arrives, or its receiver is lost, unless the network is slow.
	transit time.Duration
	// cpu is the processor time of this node's ranks in the sample before.
	cpu      float64
	reported bool
	// If deadlocks end the job, but a rank may have been able to run when this one was reported, it is looked at again at the time
	// retry: a rank under load may not have returned its goroutines. pause is the time until then, which doubles.
	retry time.Time
	pause time.Duration
}

// firstPause and maxPause bound deadlockWatch.pause: the goroutines of all ranks are read each time.
const (
	firstPause = time.Second
	maxPause   = time.Minute
)

// Deadlocks returns the channel on which the monitor asks for the end of a job that is deadlocked, with the reason.
func (m *Monitor) Deadlocks() <-chan string { return m.deadlocks }

// run samples the ranks until the job ends.
func (w *deadlockWatch) run() {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-w.m.ctx.Done():
			return
		case <-tick.C:
		}
		switch found := w.sample(); {
		case !found:
			w.reported = false
		case !w.reported:
			w.pause = firstPause
			w.report()
		case w.ends && time.Now().After(w.retry):
			w.report()
		}
	}
}

// sample reports whether the ranks are deadlocked: each waits, and nothing is on its way. Other nodes are asked only if the ranks
// of this node wait. The processor time shows ranks that move a message, or compute in another goroutine.
func (w *deadlockWatch) sample() bool {
	ranks, soon := w.m.localRanks(), w.after-w.every
	used := inspect.CPU(ranks) - w.cpu
	w.cpu += used
	if used > max(w.every.Seconds()/20, 0.03)*float64(len(ranks)) || !inspect.Waiting(ranks, soon) {
		return false
	}
	if len(w.m.remotes) > 0 {
		ranks = w.m.allRanks(w.m.ctx, nil)
	}
	before, m := w.messages, inspect.MessagesOf(ranks)
	if w.messages = m; m != before || !inspect.Waiting(ranks, w.after) {
		return false
	}
	return m.None() || !m.Known() || m.Left && inspect.Waiting(ranks, w.after+w.transit)
}

// report prints the hang view. If deadlocks end the job, and no goroutine of any rank may run, it asks for the end. A deadlock
// that was reported is reported again only if it ends the job.
func (w *deadlockWatch) report() {
	m := w.m
	v, err := inspect.NewView(m.ctx, m)
	if err != nil {
		return // the job has ended
	}
	runs := "--check would end it"
	switch {
	case !w.messages.Known():
		runs = "messages may be on their way: " + w.messages.Unknown
	case !w.messages.None():
		runs = "messages may be on their way, or were sent to ranks that have left"
	case w.ends:
		if runs = w.mayRun(); runs == "" {
			v.Stacks = nil // the lines of the calls are in the view
		}
	}
	w.retry = time.Now().Add(w.pause)
	w.pause = min(2*w.pause, maxPause)
	if w.reported && runs != "" {
		return
	}
	w.reported = true
	text := fmt.Sprintf("deadlock: every rank has waited for another for %v", w.after)
	if runs != "" {
		text = fmt.Sprintf("every rank has waited for another for %v; the job goes on (%s; --deadlock-report 0 omits this report)",
			w.after, runs)
	}
	var view strings.Builder
	if err := v.Text(&view); err != nil {
		return
	}
	m.streams.Warn("every rank waits for another", console.Attrs{LimitSeconds: w.after.Seconds(),
		Text: text + "\n" + strings.TrimSuffix(view.String(), "\n")})
	if runs == "" {
		select {
		case m.deadlocks <- "the job was ended because its ranks are deadlocked (--check)":
		case <-m.ctx.Done():
		}
	}
}

// mayRun returns why a rank may continue although it waits in package mpi; "" if none may.
func (w *deadlockWatch) mayRun() string {
	ctx, cancel := context.WithTimeout(w.m.ctx, remoteTimeout)
	defer cancel()
	var waiting []int
	for _, r := range w.m.allRanks(ctx, nil) {
		if r.State == jobs.Running {
			waiting = append(waiting, r.Rank)
		}
	}
	texts := w.m.allStacks(ctx, waiting, nil)
	for _, rank := range waiting {
		text, ok := texts[rank]
		if !ok {
			return fmt.Sprintf("rank %d did not return its goroutines", rank)
		}
		if g := inspect.MayRun(text); g != "" {
			return fmt.Sprintf("rank %d: %s may run", rank, g)
		}
	}
	return ""
}
