package coordinator

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"golang.org/x/sys/unix"
)

// worker is ibrun on a node other than 0: it keeps the agent here and does what node 0 says.
type worker struct {
	console.Streams
	cluster      *Cluster
	opts         *cli.Options
	local        *localAgent
	recorder     *monitor.NodeRecorder // nil: node 0 wants no report
	endRequested bool                  // the user wants the job to end
	outcome      *protocol.Outcome     // of node 0, or of its loss
	giveUp       <-chan time.Time
}

// runWorker has this node's ranks started, and passes on what happens to node 0 and what it orders, until that has judged.
func runWorker(m *Cluster, where Layout, t *protocol.Task, o *cli.Options, s console.Streams) (int, error) {
	signals := make(chan os.Signal, 16)
	console.Notify(signals, slices.Concat(console.EndSignals(), console.ForwardedSignals(), []os.Signal{console.HangViewSignal}))
	defer signal.Stop(signals)
	l, err := startLocalAgent(t, o.Verbose, s)
	if err != nil {
		return 0, err
	}
	defer l.close()
	m.connectMonitor(l.monitor, where, t.Node)
	defer l.monitor.ExportMetrics(o)()
	defer l.monitor.Start(o)()
	l.start() // now that whoever hears of a rank can look on
	w := &worker{Streams: s, cluster: m, opts: o, local: l, recorder: monitor.NewNodeRecorder(t, m.Welcome.Report)}
	if o.Report && !m.Welcome.Report {
		w.Say("--report: node 0 reports, and was not told to")
	}
	w.handleEvents(signals)
	l.cleanUp()
	for _, line := range w.outcome.Lines {
		w.Say("%s", line)
	}
	m.node0.Close()
	return w.outcome.Code, nil
}

// handleEvents returns when node 0 has judged and nothing is left here, or the user does not want to wait for that.
func (w *worker) handleEvents(signals <-chan os.Signal) {
	events, orders := w.local.events, w.cluster.orders
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
		case <-w.giveUp:
			if w.outcome == nil {
				w.outcome = &protocol.Outcome{Code: exitcode.Failed,
					Lines: []string{"node 0 did not end the job, so this node leaves it"}}
			}
			return // cleanUp kills the agent too
		}
	}
}

// handleEvent passes on what the agent says.
func (w *worker) handleEvent(e *protocol.Event) {
	if w.local.handleEvent(e) {
		return
	}
	if e.Kind == protocol.EventDone {
		w.local.monitor.ReportFinalProgress() // no rank is left
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

// handleOrder does what node 0 says. A verdict comes when nothing is left, or should not be.
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
	case o.Signal != 0, o.End != nil, o.Parcel != nil:
		w.local.order(&protocol.Order{Signal: o.Signal, End: o.End, Parcel: o.Parcel})
	}
}

// onNode0Lost ends what runs here when node 0 has gone, unless it has judged.
func (w *worker) onNode0Lost() {
	if w.outcome != nil {
		return
	}
	why := fmt.Sprintf("node 0 at %v is lost: %v", w.cluster.node0.Remote(), w.cluster.lostErr)
	w.outcome = &protocol.Outcome{Code: exitcode.Failed, Lines: []string{why}}
	w.local.order(&protocol.Order{End: &protocol.EndOrder{Grace: gracePeriod, LastOutputOf: -1}})
}

// handleSignal does here what a signal does on node 0, which hears of it.
func (w *worker) handleSignal(sig syscall.Signal) {
	if sig == console.HangViewSignal { // whoever asked sees it, and nobody else
		w.local.monitor.ShowHangView()
		return
	}
	w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventSignal, Signal: int(sig)})
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP:
		if w.endRequested {
			w.giveUp = time.After(2 * agentTimeout) // node 0 does it unless it hangs
			return
		}
		w.endRequested = true
		w.Say("asking the ranks to end (%s); once more kills them", unix.SignalName(sig))
	case unix.SIGTSTP:
		w.local.order(&protocol.Order{Signal: int(unix.SIGSTOP)}) // node 0's order comes too late
		w.cluster.node0.Suspend()
		w.local.stopSelf()
	case unix.SIGCONT:
		w.cluster.node0.Resume()
	}
}
