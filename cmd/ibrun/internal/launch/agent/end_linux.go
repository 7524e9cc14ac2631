package agent

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// stopStarting prevents the start of further ranks, and blocks until none is being started.
func (a *agent) stopStarting() {
	a.closing.Store(true)
	<-a.started
}

// signalAll sends a signal to all ranks and all of their descendants. A rank that is a shell would not forward it.
func (a *agent) signalAll(sig unix.Signal) {
	ranks := map[int]bool{}
	for _, r := range a.ranks {
		ranks[r.pid] = true
		_ = unix.PidfdSendSignal(r.pidfd, sig, nil, 0) // the rank may have exited
	}
	for _, d := range proctree.Descendants(os.Getpid()) {
		if !ranks[d.PID] {
			proctree.SignalChild(d.PID, d.Parent, sig)
		}
	}
}

// killAll kills all descendants of the agent and returns the pids of those that do not exit.
func (a *agent) killAll() (stuck []int) {
	for _, r := range a.ranks {
		_ = unix.PidfdSendSignal(r.pidfd, unix.SIGKILL, nil, 0) // the rank may have exited
	}
	stuck = proctree.KillDescendants(a.reaper.Gone, a.group)
	if err := a.group.Remove(); err != nil && len(stuck) == 0 {
		a.send(&protocol.Event{Kind: protocol.EventNote, Rank: -1, Text: err.Error()})
	}
	return stuck
}

// finish kills the remaining processes and sends the last event. Before that event it waits until all exits have been reported
// and all output has been forwarded, at most as long as ibrun wants. If ibrun dies, it returns without waiting.
func (a *agent) finish(e *protocol.EndOrder, orders <-chan protocol.Order) {
	done := protocol.Event{Kind: protocol.EventDone, PIDs: a.killAll()}
	shown := make(chan struct{})
	go func() {
		<-a.exitsReported
		a.out.Wait()
		a.out.EndBar()
		close(shown)
	}()
	timeout := after(e.OutputTimeout)
	for waiting := len(done.PIDs) == 0; waiting; {
		select {
		case <-shown:
			waiting = false
		case <-timeout:
			done.Output = a.out.Undelivered()
			waiting = false
		case o, alive := <-orders:
			if !alive {
				return
			}
			if o.End != nil {
				e, timeout = o.End, after(o.End.OutputTimeout)
			}
		}
	}
	if done.Rank = e.LastOutputOf; a.task.LocalIndex(e.LastOutputOf) < 0 {
		a.mu.Lock()
		done.Rank = a.firstFailed // the coordinator may have another failure
		a.mu.Unlock()
	}
	for _, r := range a.ranks {
		if r.task.Rank == done.Rank {
			done.Text, done.Shown = r.output.LastLines(), r.output.ShownIn(a.out.Stderr)
		}
	}
	a.send(&done)
}

// after is like time.After, but for 0 the channel never receives.
func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}
