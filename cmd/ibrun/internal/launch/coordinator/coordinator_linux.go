package coordinator

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/pmi"
)

// RunJob starts the ranks of this node, watches the job to its end together with the other nodes, and returns the exit code of
// ibrun.
func RunJob(m *Cluster, where Layout, t *protocol.Task, o *cli.Options, s console.Streams) (int, error) {
	if m.node0 != nil {
		return runWorker(m, where, t, o, s)
	}
	return runCoordinator(m, where, t, o, s)
}

// coordinator watches one job, on node 0.
type coordinator struct {
	console.Streams
	cluster  *Cluster
	opts     *cli.Options
	task     *protocol.Task
	failures *failureTracker
	local    *localAgent
	nodes    []*node
	exchange *pmi.Exchange
	recorder *monitor.NodeRecorder // nil: no report is wanted

	recorded monitor.RecordingSet // of other nodes

	failure      *failure // the first
	endRequested bool     // the user wants the job to end
	ending       bool     // the agents were told to end the job
	timedOut     bool     // the job did not end within --timeout
	giveUp       <-chan time.Time
	lastOutput   map[int]string // the last output of ranks
	undelivered  []string       // which output was not passed on, and why
}

// runCoordinator has the ranks started and watches them, on all nodes, until nothing of the job is left.
func runCoordinator(m *Cluster, where Layout, t *protocol.Task, o *cli.Options, s console.Streams) (int, error) {
	signals := make(chan os.Signal, 16)
	console.Notify(signals, slices.Concat(console.EndSignals(), console.ForwardedSignals(), []os.Signal{console.HangViewSignal}))
	defer signal.Stop(signals)
	exchange, err := pmi.NewExchange(t.Mapping, t.Size)
	if err != nil {
		return 0, err
	}
	l, err := startLocalAgent(t, o.Verbose, s)
	if err != nil {
		return 0, err
	}
	defer l.close()
	m.connectMonitor(l.monitor, where, t.Node)
	defer l.monitor.ExportMetrics(o)()
	defer l.monitor.Start(o)()
	l.start() // now that whoever hears of a rank can look on
	began := time.Now()
	c := &coordinator{Streams: s, cluster: m, opts: o, task: t, failures: newFailureTracker(t.Size), local: l, exchange: exchange,
		recorder: monitor.NewNodeRecorder(t, o.Report), lastOutput: map[int]string{}}
	for i := range t.Nodes {
		n := &node{number: i, name: t.Host, ranks: where.RanksOn[i]}
		if i > 0 {
			n.name, n.conn = m.workers[i].Name, m.workers[i].conn
		}
		c.nodes = append(c.nodes, n)
	}
	c.handleEvents(signals)
	l.cleanUp()
	wall := time.Since(began)
	if c.opts.Verbose {
		c.Say("the job took %v", wall.Round(time.Millisecond))
	}
	v := c.outcome()
	for _, line := range v.Lines {
		c.Say("%s", line)
	}
	m.sendOutcome(v)
	c.writeReport(v, began, wall)
	c.writeRecordings()
	return v.Code, nil
}

// orderAll tells all agents something.
func (c *coordinator) orderAll(o *protocol.Order) {
	if !c.nodes[0].done {
		c.local.order(o)
	}
	c.cluster.sendOrder(o)
}

// handleEvents returns when nothing is left on any node, or the user does not want to wait for that.
func (c *coordinator) handleEvents(signals <-chan os.Signal) {
	var timeout <-chan time.Time
	if c.opts.Timeout > 0 {
		timeout = time.After(c.opts.Timeout)
	}
	var shown <-chan struct{} // after the timeout: the view has been
	var unread <-chan time.Time
	events := c.local.events
	for slices.ContainsFunc(c.nodes, func(n *node) bool { return !n.done }) {
		select {
		case e, alive := <-events:
			if alive {
				c.handleEvent(c.nodes[0], e)
			} else {
				events = nil
				c.agentDied()
			}
		case h := <-c.cluster.received:
			c.handleRemote(h)
		case sig := <-signals:
			c.handleSignal(sig.(syscall.Signal), true)
		case <-timeout:
			shown, unread = c.local.monitor.ShowHangView(), time.After(hangViewTimeout)
		case <-shown:
			shown, unread = nil, nil
			c.onTimeout()
		case <-unread:
			shown = nil
			c.onTimeout()
		case <-c.giveUp:
			return // cleanUp kills the agent too
		}
	}
}

// onTimeout ends the job because of --timeout: the ranks, and then the wait for their output, which may take for ever.
func (c *coordinator) onTimeout() {
	what := "all ranks had ended, and ibrun was not done with what they left"
	if running := c.failures.running(); len(running) > 0 {
		what = "ranks " + hw.FormatList(running)
		if c.task.Nodes == 1 {
			what += " on " + c.task.Host
		}
		what += " were running"
	}
	c.timedOut = true
	c.fail(c.nodes[0], exitcode.TimedOut, fmt.Sprintf("the job did not end within %v (--timeout); %s", c.opts.Timeout, what))
	c.orderAll(c.newEndOrder(gracePeriod)) // also where the end has been ordered before
}

// agentDied sees to what the agent of this node has left, unless it was done.
func (c *coordinator) agentDied() {
	if c.nodes[0].done {
		return
	}
	c.local.cleanUp()
	c.nodes[0].done = true
	c.fail(c.nodes[0], exitcode.Failed, c.local.exitReason())
}

// handleRemote takes in what another node says.
func (c *coordinator) handleRemote(h receivedEvent) {
	i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.conn == h.conn })
	if i < 0 && h.event != nil && h.event.Kind == protocol.EventJoin {
		c.cluster.refuse(h.conn, exitcode.Errorf(exitcode.UsageError, "the job has started, with another node %d", h.conn.Node()))
	}
	if i < 0 || c.nodes[i].done {
		return // it was never let in, or it has said its last word
	}
	n, err := c.nodes[i], h.err
	if err == nil {
		err = n.checkEvent(h.event)
	}
	if err != nil {
		n.done = true
		c.fail(n, exitcode.Failed, fmt.Sprintf("node %d (%s) at %v is lost: %v", n.number, n.name, n.conn.Remote(), err))
		return
	}
	c.handleEvent(n, h.event)
}

// handleEvent takes in what an agent says.
func (c *coordinator) handleEvent(n *node, e *protocol.Event) {
	if n.conn == nil && c.local.handleEvent(e) {
		return
	}
	switch e.Kind {
	case protocol.EventParcel:
		c.exchangeParcel(n, e.Parcel)
	case protocol.EventRecorded:
		c.addRecording(n, e)
	case protocol.EventSignal:
		c.handleSignal(syscall.Signal(e.Signal), false)
	case protocol.EventFailure:
		c.fail(n, e.Code, e.Text)
	case protocol.EventNodeRecord:
		n.record = e.NodeRecord
	case protocol.EventPage:
		n.keepPage(e)
	case protocol.EventProgress:
		c.local.monitor.SetRemoteProgress(n.number, *e.Progress)
	case protocol.EventInspect:
		c.local.monitor.HandleRemote(n.number, e.Question, e.Answer)
	case protocol.EventDone:
		n.done = true
		c.undelivered = append(c.undelivered, e.Output...)
		if e.Text != "" {
			c.lastOutput[e.Rank] = e.Text
		}
	}
	if f := c.failures.handleEvent(e); f != nil {
		f.node, f.time = n.number, e.Time
		// What the end of the job has brought about is no reason for it, even if clocks that differ a little make it the
		// earlier.
		if !e.AfterEnd || c.failure == nil {
			c.recordFailure(f)
		}
		if !c.endRequested {
			c.endJob(gracePeriod)
		}
	}
	if c.failures.allExited() {
		c.endJob(gracePeriod)
	}
}

// exchangeParcel passes on what the PMI servers of the nodes say to each other.
func (c *coordinator) exchangeParcel(n *node, p *pmi.ExchangeMessage) {
	list, err := c.exchange.Receive(n.number, p)
	if err != nil {
		c.fail(n, exitcode.Failed, fmt.Sprintf("node %d (%s): %v", n.number, n.name, err))
		return
	}
	for _, d := range list {
		o := &protocol.Order{Parcel: &d.Message}
		far := encodeOrder(o)
		for _, to := range d.Nodes {
			if to == 0 {
				c.local.order(o)
			} else {
				far(c.nodes[to].conn)
			}
		}
	}
}

// fail ends the job for a reason other than a rank.
func (c *coordinator) fail(n *node, code int, why string) {
	c.recordFailure(&failure{rank: -1, code: code, reason: why, node: n.number, time: time.Now().UnixNano()})
	c.endJob(gracePeriod)
}

// recordFailure keeps the first fault: later ones mostly follow from it. One on another node may be heard of a little late.
func (c *coordinator) recordFailure(f *failure) {
	if c.failure != nil && !f.precedes(c.failure) {
		return
	}
	c.failure = f
	if c.ending {
		c.orderAll(c.newEndOrder(gracePeriod)) // whose last output is wanted has changed
	}
}

// endJob has the agents end the job, with that time between SIGTERM and SIGKILL.
func (c *coordinator) endJob(grace time.Duration) {
	if c.ending && grace > 0 {
		return
	}
	c.ending = true
	c.orderAll(c.newEndOrder(grace))
}

func (c *coordinator) newEndOrder(grace time.Duration) *protocol.Order {
	tail := -1
	if c.failure != nil {
		tail = c.failure.rank
	}
	e := &protocol.EndOrder{Grace: grace, LastOutputOf: tail}
	if c.timedOut {
		e.OutputTimeout = agentTimeout
	}
	return &protocol.Order{End: e}
}

// outcome says why the job failed, if it did, and with which exit code.
func (c *coordinator) outcome() *protocol.Outcome {
	f := c.failure
	if f == nil {
		return &protocol.Outcome{}
	}
	v := &protocol.Outcome{Code: f.code}
	if f.rank < 0 {
		v.Lines = append(append(v.Lines, f.reason), c.undelivered...)
		return v
	}
	if tail := c.lastOutput[f.rank]; tail != "" && !c.endRequested {
		v.Lines = append(v.Lines, fmt.Sprintf("the last output of rank %d was", f.rank))
		for line := range strings.Lines(tail) {
			v.Lines = append(v.Lines, "  | "+strings.TrimSuffix(line, "\n"))
		}
	}
	at := slices.IndexFunc(c.nodes, func(n *node) bool { return n.has(f.rank) })
	who := fmt.Sprintf("rank %d on %s", f.rank, c.nodes[at].name)
	if pid := c.failures.ranks[f.rank].pid; pid != 0 {
		who += fmt.Sprintf(" (pid %d)", pid)
	}
	v.Lines = append(append(v.Lines, who+" "+f.reason), c.undelivered...)
	return v
}
