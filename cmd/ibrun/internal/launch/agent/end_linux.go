package agent

import (
	"os"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"golang.org/x/sys/unix"
)

// stopStarting waits until no more ranks are started.
func (a *agent) stopStarting() {
	a.closing.Store(true)
	<-a.started
}

// signalAll sends a signal to all ranks and to everything they started, which a rank that is a shell would not pass on.
func (a *agent) signalAll(sig unix.Signal) {
	ranks := map[int]bool{}
	for _, r := range a.ranks {
		ranks[r.pid] = true
		_ = unix.PidfdSendSignal(r.pidfd, sig, nil, 0) // it may have died
	}
	for pid, parent := range proctree.Descendants(os.Getpid()) {
		if !ranks[pid] {
			proctree.SignalChild(pid, parent, sig)
		}
	}
}

// killAll kills everything below the agent and returns the pids of what does not die.
func (a *agent) killAll() (stuck []int) {
	for _, r := range a.ranks {
		_ = unix.PidfdSendSignal(r.pidfd, unix.SIGKILL, nil, 0) // it may have died already
	}
	stuck = proctree.KillDescendants(a.reaper.Gone, a.group)
	if err := a.group.Remove(); err != nil && len(stuck) == 0 {
		a.send(&protocol.Event{Kind: protocol.EventNote, Rank: -1, Text: err.Error()})
	}
	return stuck
}

// finish ends what is left and sends the last event, once all deaths have been told and all output has been passed on, or ibrun
// does not want to wait for that. ibrun dying is reason not to wait.
func (a *agent) finish(e *protocol.EndOrder, orders <-chan protocol.Order) {
	done := protocol.Event{Kind: protocol.EventDone, PIDs: a.killAll()}
	shown := make(chan struct{})
	go func() {
		<-a.exitsReported
		a.out.forwarders.Wait()
		a.out.stderr.endBar()
		close(shown)
	}()
	enough := after(e.OutputTimeout)
	for waiting := len(done.PIDs) == 0; waiting; {
		select {
		case <-shown:
			waiting = false
		case <-enough:
			done.Output = a.out.undelivered(a.task.Host)
			waiting = false
		case o, alive := <-orders:
			if !alive {
				return
			}
			if o.End != nil {
				e, enough = o.End, after(o.End.OutputTimeout)
			}
		}
	}
	if done.Rank = e.LastOutputOf; a.task.LocalIndex(e.LastOutputOf) < 0 {
		a.mu.Lock()
		done.Rank = a.firstFailed // which node 0 may find to have been before the one that it knows of
		a.mu.Unlock()
	}
	for _, r := range a.ranks {
		if r.task.Rank == done.Rank {
			done.Text = r.output.lastLines()
		}
	}
	a.send(&done)
}

// after is time.After, and never for 0.
func after(d time.Duration) <-chan time.Time {
	if d == 0 {
		return nil
	}
	return time.After(d)
}
