package launch

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"golang.org/x/sys/unix"
)

// worker is ibrun on a node other than 0: it keeps the agent here and does what node 0 says.
type worker struct {
	Streams
	cluster      *cluster
	opts         *cli.Options
	local        *localAgent
	recorder     *nodeRecorder // nil: node 0 wants no report
	endRequested bool          // the user wants the job to end
	outcome      *outcome      // of node 0, or of its loss
	giveUp       <-chan time.Time
}

// runWorker has this node's ranks started, and passes on what happens to node 0 and what it orders, until that has judged.
func runWorker(m *cluster, where layout, t *task, o *cli.Options, s Streams) (int, error) {
	signals := make(chan os.Signal, 16)
	notifySignals(signals, slices.Concat(endSignals(), forwardedSignals(), []os.Signal{hangViewSignal}))
	defer signal.Stop(signals)
	l, err := startLocalAgent(t, o.Verbose, s)
	if err != nil {
		return 0, err
	}
	defer l.close()
	l.monitor.connectNodes(m, where)
	defer l.export(o)()
	defer l.serveStatus(o)()
	l.start() // now that whoever hears of a rank can look on
	f := &worker{Streams: s, cluster: m, opts: o, local: l, recorder: newNodeRecorder(l, m.welcome.Report)}
	if o.Report && !m.welcome.Report {
		f.Say("--report: node 0 reports, and was not told to")
	}
	f.handleEvents(signals)
	l.cleanUp()
	for _, line := range f.outcome.Lines {
		f.Say("%s", line)
	}
	m.node0.Close()
	return f.outcome.Code, nil
}

// handleEvents returns when node 0 has judged and nothing is left here, or the user does not want to wait for that.
func (f *worker) handleEvents(signals <-chan os.Signal) {
	events, orders := f.local.events, f.cluster.orders
	for f.outcome == nil || !f.local.done {
		select {
		case e, alive := <-events:
			switch {
			case alive:
				f.handleEvent(e)
			case f.local.done:
				events = nil
			default:
				events = nil
				f.agentDied()
			}
		case o, alive := <-orders:
			if !alive {
				orders = nil
				f.onNode0Lost()
				continue
			}
			f.handleOrder(o)
		case sig := <-signals:
			f.handleSignal(sig.(syscall.Signal))
		case <-f.giveUp:
			if f.outcome == nil {
				f.outcome = &outcome{Code: codeFailed, Lines: []string{"node 0 did not end the job, so this node leaves it"}}
			}
			return // cleanUp kills the agent too
		}
	}
}

// handleEvent passes on what the agent says.
func (f *worker) handleEvent(e *event) {
	if f.local.handleEvent(e) {
		return
	}
	if e.Kind == evDone {
		f.local.monitor.reportFinalProgress() // no rank is left
		f.sendRecordings()
		f.recorder.sendTo(f.cluster)
	}
	f.cluster.sendEvent(e)
}

func (f *worker) agentDied() {
	f.local.cleanUp()
	f.local.done = true
	f.sendRecordings()
	f.cluster.sendEvent(&event{Kind: evFailure, Code: codeFailed, Text: f.local.exitReason()})
	f.recorder.sendTo(f.cluster)
	f.cluster.sendEvent(&event{Kind: evDone, Rank: -1})
}

// handleOrder does what node 0 says. A verdict comes when nothing is left, or should not be.
func (f *worker) handleOrder(o *order) {
	switch {
	case o.Outcome != nil:
		f.outcome = o.Outcome
		if !f.local.done {
			f.local.order(&order{End: &endOrder{LastOutputOf: -1}})
			f.giveUp = time.After(agentTimeout)
		}
	case o.Question != nil, o.Answer != nil:
		f.local.monitor.handleRemote(0, o.Question, o.Answer)
	case o.Signal != 0, o.End != nil, o.Parcel != nil:
		f.local.order(&order{Signal: o.Signal, End: o.End, Parcel: o.Parcel})
	}
}

// onNode0Lost ends what runs here when node 0 has gone, unless it has judged.
func (f *worker) onNode0Lost() {
	if f.outcome != nil {
		return
	}
	why := fmt.Sprintf("node 0 at %v is lost: %v", f.cluster.node0.Remote(), f.cluster.lostErr)
	f.outcome = &outcome{Code: codeFailed, Lines: []string{why}}
	f.local.order(&order{End: &endOrder{Grace: gracePeriod, LastOutputOf: -1}})
}

// handleSignal does here what a signal does on node 0, which hears of it.
func (f *worker) handleSignal(sig syscall.Signal) {
	if sig == hangViewSignal { // whoever asked sees it, and nobody else
		f.local.monitor.showHangView()
		return
	}
	f.cluster.sendEvent(&event{Kind: evSignal, Signal: int(sig)})
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP:
		if f.endRequested {
			f.giveUp = time.After(2 * agentTimeout) // node 0 does it unless it hangs
			return
		}
		f.endRequested = true
		f.Say("asking the ranks to end (%s); once more kills them", unix.SignalName(sig))
	case unix.SIGTSTP:
		f.local.order(&order{Signal: int(unix.SIGSTOP)}) // node 0's order comes too late
		f.cluster.node0.Hold()
		f.local.stopSelf()
	case unix.SIGCONT:
		f.cluster.node0.Resume()
	}
}
