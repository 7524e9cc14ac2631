package coordinator

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/watcher"
)

// worker is ibrun on a node other than 0: it controls the agent of its node and executes the orders
// of the coordinator.
type worker struct {
	console.Streams
	cluster         *Cluster
	settings        *RunSettings
	local           *localAgent
	recorder        *monitor.NodeRecorder // nil: the coordinator requests no report
	requests        userRequests
	endSignal       syscall.Signal    // by which the ranks of this node were asked to end; 0: they were not
	outcome         *protocol.Outcome // of the coordinator, or set when that is lost
	coordinatorLost bool              // outcome was not received
	refused         bool              // its order was invalid, so no further ones are executed
	giveUpAt        time.Time         // when the job ends here without an answer of others; zero: never
	giveUp          <-chan time.Time
	reporting       sync.WaitGroup    // see reportDone
	forward         *forwardedStreams // nil: this ibrun writes the output of this node itself
}

// limitEnd limits how long this ibrun waits for the coordinator and for its agent. A later call
// cannot extend it.
func (w *worker) limitEnd(limit time.Duration) {
	if at := time.Now().Add(limit); w.giveUpAt.IsZero() || at.Before(w.giveUpAt) {
		w.giveUpAt, w.giveUp = at, time.After(limit)
	}
}

// runWorker starts this node's ranks, and forwards events to the coordinator and orders from it
// until the coordinator sends the outcome.
func runWorker(watch *watcher.Watcher, cl *Cluster, where Layout, t *protocol.Task, set *RunSettings,
	s console.Streams) (int, error) {
	signals := make(chan os.Signal, 16)
	console.Notify(signals, slices.Concat(console.EndSignals(), console.ForwardedSignals(), []os.Signal{console.HangViewSignal}))
	defer signal.Stop(signals)
	own := s
	forward, s, err := forwardStreams(cl, t, own)
	if err != nil {
		return 0, err
	}
	l, err := startLocalAgent(watch, t, set.Verbose, s, s)
	forward.started(s)
	if err != nil {
		return 0, err
	}
	defer l.close()
	cl.connectMonitor(l.monitor, where, t.Node)
	defer l.startMonitor(&set.Monitor)()
	l.start() // after the status server, so that a rank that is announced can be inspected
	began := time.Now()
	w := &worker{Streams: s, cluster: cl, settings: set, local: l, recorder: monitor.NewNodeRecorder(t, cl.Job.Report),
		requests: newUserRequests(), forward: forward}
	if set.Report.Enabled && !cl.Job.Report {
		w.Warn("--report has no effect on this node: node 0 writes the report and was started without --report", console.Attrs{})
	}
	w.handleEvents(signals)
	w.requests.announce(s)
	l.cleanUp()
	l.metrics.JobEnded(w.outcome.Code)
	forward.close()
	cl.coordinator.Close()
	own.LimitFlush(w.outputTimeout())
	if forward != nil { // lines that follow the forwarded output are printed on this node, by s
		s.LimitFlush(w.outputTimeout())
		s.Flush()
	}
	if forward == nil || w.coordinatorLost { // otherwise the coordinator prints them
		printEnd(own, w.outcome, t.Node, time.Since(began), false)
	}
	signal.Stop(signals) // a signal now ends ibrun, as at the coordinator
	w.reporting.Wait()   // only if the coordinator did not wait for the report
	if w.endSignal == 0 {
		l.metrics.Linger(own)
	}
	return w.outcome.Code, nil
}

// handleEvents processes events and orders until the coordinator has sent the outcome and no
// process is left on this node, or until the user does not want to wait for that.
func (w *worker) handleEvents(signals <-chan os.Signal) {
	events, orders, lost, gone := w.local.events, w.cluster.orders, w.local.watcher.Lost, w.cluster.peers.Gone
	for _, o := range w.cluster.early.list {
		w.handleRemote(o)
	}
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
				w.onCoordinatorLost(w.cluster.lost)
				continue
			}
			w.handleRemote(o)
		case <-gone:
			gone = nil
			w.onStarterGone()
		case sig := <-signals:
			w.handleSignal(sig.(syscall.Signal))
		case <-w.local.terminalRead:
			w.handleSignal(unix.SIGTSTP)
		case <-lost:
			lost = nil
			w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventFailure, Code: exitcode.Failed,
				Text: w.local.watcher.LostReason()})
		case <-w.requests.due:
			w.requests.announce(w.Streams)
		case <-w.giveUp:
			if w.outcome == nil {
				w.coordinatorLost = true
				w.outcome = protocol.NewOutcome(exitcode.Failed,
					message.Message{Msg: "node 0 did not end the job; this node has ended its ranks"})
				if w.endSignal != 0 {
					w.outcome.Code = exitcode.SignalBase + int(w.endSignal)
				}
			}
			return // cleanUp then kills the agent
		}
	}
}

// handleEvent forwards an event of the agent to the coordinator.
func (w *worker) handleEvent(e *protocol.Event) {
	if w.local.handleEvent(e) {
		return
	}
	if e.Kind == protocol.EventDone {
		w.reportDone(e)
		return
	}
	w.cluster.sendEvent(e)
}

func (w *worker) agentDied() {
	w.local.cleanUp()
	w.local.done = true
	w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventFailure, Time: w.local.diedAt, Code: exitcode.Failed,
		Text: w.local.exitReason()})
	w.reportDone(&protocol.Event{Kind: protocol.EventDone, Rank: -1})
}

// reportDone sends what the ranks of this node have recorded to the coordinator, and then
// EventDone. All ranks have exited. A goroutine does it: to compress and to send the records may
// take seconds, and the user and the coordinator must be obeyed meanwhile. So may output that the
// coordinator does not take.
func (w *worker) reportDone(done *protocol.Event) {
	w.forward.beginEnd(len(done.Output) > 0)
	w.reporting.Go(func() {
		w.local.monitor.ReportFinalProgress()
		w.sendRecordings()
		w.sendNodeRecord()
		if w.forward != nil {
			w.Flush() // its lines come before the end of the forwarded output
		}
		if !w.forward.end() && len(done.Output) == 0 {
			done.Output = []string{fmt.Sprintf("the output of %s is incomplete: ibrun's standard output did not accept it",
				w.local.task.Host)}
		}
		done.Linger = w.local.metrics.LingerLimit()
		w.cluster.sendEvent(done)
	})
}

// handleOrder executes an order that checkOrder has accepted. The outcome arrives when no process of the job is left, or when
// none should be.
func (w *worker) handleOrder(o *protocol.Order) {
	switch {
	case o.OutputAck != nil, o.Input != nil:
		w.forward.handle(o)
	case o.Outcome != nil:
		w.outcome = o.Outcome
		w.forward.drop()
		if !w.local.done {
			w.endRanks(0)
		}
	case o.Question != nil, o.Answer != nil:
		w.local.monitor.HandleRemote(0, o.Question, o.Answer)
	case isEndSignal(o.Signal):
		w.signalRanks(syscall.Signal(o.Signal))
	case o.End != nil:
		w.local.order(&protocol.Order{End: o.End})
		w.forward.limit(o.End.OutputTimeout)
		if o.End.OutputTimeout > 0 {
			// The coordinator ends the job earlier, unless it hangs.
			w.limitEnd(o.End.Grace + o.End.OutputTimeout + endMargin + agentTimeout)
		}
	case o.Signal != 0, o.Exchange != nil, o.Left != nil:
		w.local.order(&protocol.Order{Signal: o.Signal, Exchange: o.Exchange, Left: o.Left})
	}
}

// signalRanks asks the ranks of this node to end, unless they have been asked before: a second signal would make many programs
// exit immediately.
func (w *worker) signalRanks(sig syscall.Signal) {
	if w.endSignal == 0 {
		w.endSignal = sig
		w.local.order(&protocol.Order{Signal: int(sig)})
	}
}

// endRanks ends the ranks of this node without the coordinator.
func (w *worker) endRanks(grace time.Duration) {
	limit := w.outputTimeout()
	if limit == 0 {
		limit = failedOutputTimeout
	}
	w.local.order(&protocol.Order{End: &protocol.EndOrder{Grace: grace, LastOutputOf: -1, OutputTimeout: limit}})
	w.limitEnd(grace + limit + agentTimeout)
}

// outputTimeout returns how long the remaining lines of ibrun may take; 0: no limit.
func (w *worker) outputTimeout() time.Duration {
	switch {
	case w.endSignal != 0:
		return requestedOutputTimeout
	case w.outcome != nil && w.outcome.Code != 0:
		return failedOutputTimeout
	}
	return 0
}

// onCoordinatorLost ends the ranks of this node if the connection to the coordinator is lost before
// the outcome was received.
func (w *worker) onCoordinatorLost(lost *loss) {
	if w.outcome != nil {
		return
	}
	w.coordinatorLost = true
	w.forward.drop()
	job := &w.cluster.Job
	why := lost.reason(0, job.Names[0], w.cluster.coordinator.Remote())
	if lost.here != "" {
		why = ownNetworkFailed(w.local.task.Node, w.local.task.Host, lost.here, "node 0")
	}
	w.outcome = protocol.NewOutcome(exitcode.Failed, message.Message{Msg: nodeLost, Attrs: console.Attrs{PeerNode: new(0),
		PeerHost: job.Names[0], Address: w.cluster.coordinator.Remote().String(), Error: lost.err.Error(), Text: why}})
	w.endRanks(w.cluster.Job.FailureGrace)
}

// onStarterGone ends this node because the command that has started it has ended. The coordinator
// learns it, unless that has died.
func (w *worker) onStarterGone() {
	if w.outcome == nil {
		w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventFailure, Code: exitcode.Failed,
			Text: "what has started ibrun on " + w.local.task.Host + " has ended"})
		w.endRanks(w.cluster.Job.FailureGrace)
	}
}

// handleSignal handles a signal of the user like the coordinator does, and sends it to the
// coordinator.
func (w *worker) handleSignal(sig syscall.Signal) {
	if sig == console.HangViewSignal { // only the user of this node sees the hang view
		w.local.monitor.ShowHangView()
		return
	}
	if isEndSignal(int(sig)) {
		w.requestEnd(sig)
		return
	}
	w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventSignal, Signal: int(sig)})
	switch sig {
	case unix.SIGTSTP:
		// The order of the coordinator would arrive after this process has stopped.
		w.local.order(&protocol.Order{Signal: int(unix.SIGSTOP)})
		w.cluster.coordinator.Suspend()
		w.local.stopSelf()
	case unix.SIGCONT:
		w.cluster.coordinator.Resume()
		w.local.watchTerminal()
	}
}

// requestEnd handles the request of this node's user to end the job. The ranks of this node are
// asked immediately, since the coordinator may hang.
func (w *worker) requestEnd(sig syscall.Signal) {
	grace := w.cluster.Job.Grace
	first, second := w.requests.add(sig, time.Now())
	if !first && !second {
		return
	}
	w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventSignal, Signal: int(sig), Again: second})
	w.signalRanks(sig)
	if second {
		// The coordinator kills the job earlier, unless it hangs.
		w.limitEnd(requestedOutputTimeout + 2*agentTimeout)
		return
	}
	w.limitEnd(grace + requestedOutputTimeout + 2*agentTimeout)
	w.requests.began(sig, grace)
}
