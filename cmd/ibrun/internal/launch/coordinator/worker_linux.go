package coordinator

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/watcher"
)

// worker is ibrun on a node other than 0: it controls the agent of its node and executes the orders of node 0.
type worker struct {
	console.Streams
	cluster      *Cluster
	opts         *cli.Options
	local        *localAgent
	recorder     *monitor.NodeRecorder // nil: node 0 requests no report
	endRequested bool                  // the user has asked the job to end
	outcome      *protocol.Outcome     // received from node 0, or set when node 0 is lost
	giveUp       <-chan time.Time
}

// runWorker starts this node's ranks, and forwards events to node 0 and orders from it until node 0 sends the outcome.
func runWorker(watch *watcher.Watcher, cl *Cluster, where Layout, t *protocol.Task, o *cli.Options,
	s console.Streams) (int, error) {
	signals := make(chan os.Signal, 16)
	console.Notify(signals, slices.Concat(console.EndSignals(), console.ForwardedSignals(), []os.Signal{console.HangViewSignal}))
	defer signal.Stop(signals)
	l, err := startLocalAgent(watch, t, o.Verbose, s)
	if err != nil {
		return 0, err
	}
	defer l.close()
	cl.connectMonitor(l.monitor, where, t.Node)
	defer l.startMonitor(o)()
	l.start() // after the status server, so that a rank that is announced can be inspected
	w := &worker{Streams: s, cluster: cl, opts: o, local: l, recorder: monitor.NewNodeRecorder(t, cl.Job.Report)}
	if o.Report && !cl.Job.Report {
		w.Printf("--report has no effect on this node: node 0 writes the report and was started without --report")
	}
	w.handleEvents(signals)
	l.cleanUp()
	for _, line := range w.outcome.Lines {
		w.Printf("%s", line)
	}
	cl.node0.Close()
	return w.outcome.Code, nil
}

// handleEvents processes events and orders until node 0 has sent the outcome and no process is left on this node, or until the
// user does not want to wait for that.
func (w *worker) handleEvents(signals <-chan os.Signal) {
	events, orders, lost := w.local.events, w.cluster.orders, w.local.watcher.Lost
	for w.outcome == nil || !w.local.done {
		select {
		case e, alive := <-events:
			switch {
			case alive:
				w.handleEvent(e)
			case w.local.done:
				events = nil
			default:
				events = nil
				w.agentDied()
			}
		case o, alive := <-orders:
			if !alive {
				orders = nil
				w.onNode0Lost()
				continue
			}
			w.handleOrder(o)
		case sig := <-signals:
			w.handleSignal(sig.(syscall.Signal))
		case <-lost:
			lost = nil
			w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventFailure, Code: exitcode.Failed,
				Text: w.local.watcher.LostReason()})
		case <-w.giveUp:
			if w.outcome == nil {
				w.outcome = &protocol.Outcome{Code: exitcode.Failed,
					Lines: []string{"node 0 did not end the job; this node has ended its ranks"}}
			}
			return // cleanUp then kills the agent
		}
	}
}

// handleEvent forwards an event of the agent to node 0.
func (w *worker) handleEvent(e *protocol.Event) {
	if w.local.handleEvent(e) {
		return
	}
	if e.Kind == protocol.EventDone {
		w.local.monitor.ReportFinalProgress() // all ranks have exited
		w.sendRecordings()
		w.sendNodeRecord()
	}
	w.cluster.sendEvent(e)
}

func (w *worker) agentDied() {
	w.local.cleanUp()
	w.local.done = true
	w.sendRecordings()
	w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventFailure, Code: exitcode.Failed, Text: w.local.exitReason()})
	w.sendNodeRecord()
	w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventDone, Rank: -1})
}

// handleOrder executes an order of node 0. The outcome arrives when no process of the job is left, or when none should be.
func (w *worker) handleOrder(o *protocol.Order) {
	switch {
	case o.Outcome != nil:
		w.outcome = o.Outcome
		if !w.local.done {
			w.local.order(&protocol.Order{End: &protocol.EndOrder{LastOutputOf: -1}})
			w.giveUp = time.After(agentTimeout)
		}
	case o.Question != nil, o.Answer != nil:
		w.local.monitor.HandleRemote(0, o.Question, o.Answer)
	case o.Signal != 0, o.End != nil, o.Exchange != nil:
		w.local.order(&protocol.Order{Signal: o.Signal, End: o.End, Exchange: o.Exchange})
	}
}

// onNode0Lost ends the ranks of this node if the connection to node 0 is lost before the outcome was received.
func (w *worker) onNode0Lost() {
	if w.outcome != nil {
		return
	}
	why := fmt.Sprintf("node 0 at %v is lost: %v", w.cluster.node0.Remote(), w.cluster.lostErr)
	w.outcome = &protocol.Outcome{Code: exitcode.Failed, Lines: []string{why}}
	w.local.order(&protocol.Order{End: &protocol.EndOrder{Grace: gracePeriod, LastOutputOf: -1}})
}

// handleSignal handles a signal of the user like node 0 does, and sends it to node 0.
func (w *worker) handleSignal(sig syscall.Signal) {
	if sig == console.HangViewSignal { // only the user of this node sees the hang view
		w.local.monitor.ShowHangView()
		return
	}
	w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventSignal, Signal: int(sig)})
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP:
		if w.endRequested {
			w.giveUp = time.After(2 * agentTimeout) // node 0 kills the job earlier, unless it hangs
			return
		}
		w.endRequested = true
		w.Printf("asking the ranks to end (%s); a second signal kills them", unix.SignalName(sig))
	case unix.SIGTSTP:
		w.local.order(&protocol.Order{Signal: int(unix.SIGSTOP)}) // node 0's order would arrive after this process has stopped
		w.cluster.node0.Suspend()
		w.local.stopSelf()
	case unix.SIGCONT:
		w.cluster.node0.Resume()
	}
}
