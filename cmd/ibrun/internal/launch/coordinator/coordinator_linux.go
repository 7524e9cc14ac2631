package coordinator

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/remote"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/watcher"
	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/printable"
)

// RunJob starts the ranks of this node, by the watcher w, and processes the events of the job until it has ended. It returns the
// exit code of ibrun.
func RunJob(w *watcher.Watcher, cl *Cluster, where Layout, t *protocol.Task, set *RunSettings, s console.Streams) (int,
	error) {
	if cl.coordinator != nil {
		return runWorker(w, cl, where, t, set, s)
	}
	return runCoordinator(w, cl, where, t, set, s)
}

// coordinator controls a job. It is the ibrun of node 0.
type coordinator struct {
	console.Streams
	cluster  *Cluster
	settings *RunSettings
	task     *protocol.Task
	failures *failureTracker
	left     *leftRanks
	local    *localAgent
	nodes    []*node
	exchange *pmi.Exchange
	recorder *monitor.NodeRecorder // nil: no report was requested

	recorded monitor.RecordingSet // traces and profiles of other nodes

	output      *mergedOutput    // nil: each node writes its own output
	outputOver  <-chan time.Time // when output that was not written is given up
	outputGiven bool             // it was given up

	failure      *failure // the first failure; nil: none
	requests     userRequests
	endRequested syscall.Signal // by which a user of any node has asked the job to end; 0: none
	ending       bool           // the agents were ordered to end the job
	timedOut     bool           // the job did not end within --timeout
	linger       time.Duration  // how long the metrics of other nodes may outlast the job
	killed       *failure       // why the ranks were killed although the user only asked them to end; nil: they were not
	graceOver    <-chan time.Time
	giveUpAt     time.Time // when the job ends here although an agent does not answer; zero: never
	giveUp       <-chan time.Time
	lastOutput   map[int]lastOutput // the last output of ranks that failed
	undelivered  []string           // which output was not forwarded, and why
	lostOutput   map[int]string     // why output of ranks was lost
	outputCode   int                // the exit code if output was lost and the job has not failed otherwise
}

// runCoordinator starts the ranks of this node and processes the events of all nodes until the job has ended.
func runCoordinator(w *watcher.Watcher, cl *Cluster, where Layout, t *protocol.Task, set *RunSettings,
	s console.Streams) (int, error) {
	signals := make(chan os.Signal, 16)
	console.Notify(signals, slices.Concat(console.EndSignals(), console.ForwardedSignals(), []os.Signal{console.HangViewSignal}))
	defer signal.Stop(signals)
	exchange, err := pmi.NewExchange(t.Mapping, t.Size)
	if err != nil {
		return 0, err
	}
	var nodes []*node
	for i := range t.Nodes {
		n := &node{number: i, name: t.Host, ranks: where.RanksOn[i]}
		if i > 0 {
			n.name, n.conn = cl.workers[i].Name, cl.workers[i].conn
			if cl.Job.Started != nil {
				n.programs = cl.Job.Started.Programs
			}
		}
		nodes = append(nodes, n)
	}
	l, merged, err := startOwnAgent(w, cl, nodes, t, set.Verbose, s)
	if err != nil {
		return 0, err
	}
	defer l.close()
	cl.connectMonitor(l.monitor, where, t.Node)
	endMonitor := sync.OnceFunc(l.startMonitor(&set.Monitor))
	defer endMonitor()
	l.start() // after the status server, so that a rank that is announced can be inspected
	began := time.Now()
	c := &coordinator{Streams: s, cluster: cl, settings: set, task: t, failures: newFailureTracker(t.Size),
		left: newLeftRanks(t.Size), requests: newUserRequests(), local: l, nodes: nodes, output: merged,
		exchange: exchange,
		recorder: monitor.NewNodeRecorder(t, set.Report.Enabled), lastOutput: map[int]lastOutput{}, lostOutput: map[int]string{}}
	c.startInput(nodes[where.NodeOf[0]])
	c.handleEvents(signals)
	c.endStreams()
	c.requests.announce(s)
	l.cleanUp()
	wall := time.Since(began)
	endMonitor()
	v := c.outcome()
	l.metrics.JobEnded(v.Code)
	cl.sendOutcome(v)
	signal.Stop(signals) // a signal now ends ibrun: no process of the job is left, and a report may take long
	c.conclude(v, began, wall)
	if c.endRequested == 0 && l.metrics.Linger(s) {
		cl.peers.setLinger(0) // the user does not want to wait for the other nodes either
	}
	return v.Code, nil
}

// conclude prints how the job has ended, and writes the files that the user asked for.
func (c *coordinator) conclude(v *protocol.Outcome, began time.Time, wall time.Duration) {
	c.LimitFlush(c.outputTimeout())
	printEnd(c.Streams, v, 0, wall, c.settings.Verbose)
	c.writeReport(v, began, wall)
	c.writeRecordings()
}

// orderAll sends an order to all agents.
func (c *coordinator) orderAll(o *protocol.Order) {
	if !c.nodes[0].done {
		c.local.order(o)
	}
	c.cluster.sendOrder(o)
}

// handleEvents processes events until the job has ended on all nodes, or until the user does not want to wait for that.
func (c *coordinator) handleEvents(signals <-chan os.Signal) {
	var timeout <-chan time.Time
	if c.settings.Timeout > 0 {
		timeout = time.After(c.settings.Timeout)
	}
	var shown <-chan struct{} // after the timeout: closed when the hang view was printed
	var unread <-chan time.Time
	events, lost := c.local.events, c.local.watcher.Lost
	written := c.output.done()
	for c.isRunning() {
		select {
		case e, alive := <-events:
			if alive {
				c.handleEvent(c.nodes[0], e)
			} else {
				events = nil
				c.agentDied()
			}
		case r := <-c.cluster.received:
			c.handleRemote(r)
		case l := <-c.output.failures():
			c.handleLostOutput(l)
		case <-written:
			written = nil
		case <-c.outputOver:
			c.outputGiven = true
		case e := <-c.cluster.peers.Starts:
			c.handleStart(e)
		case <-c.left.due:
			if o := c.left.order(); o != nil && !c.ending {
				c.orderAll(o)
			}
		case sig := <-signals:
			c.handleSignal(sig.(syscall.Signal))
		case <-c.local.terminalRead:
			c.handleSignal(syscall.SIGTSTP)
		case why := <-c.local.monitor.Deadlocks():
			c.fail(c.nodes[0], exitcode.Failed, "the job was ended because its ranks are deadlocked", why)
		case <-lost:
			lost = nil
			c.failFrom(c.nodes[0], exitcode.Failed, c.local.watcher.LostReason(), time.Now().UnixNano())
		case <-c.requests.due:
			c.requests.announce(c.Streams)
		case <-c.graceOver:
			c.killRanks(fmt.Sprintf("did not end within %v (--grace)", c.settings.Grace), c.endRequested)
		case <-timeout:
			shown, unread = c.local.monitor.ShowHangView(), time.After(hangViewTimeout)
		case <-shown:
			shown, unread = nil, nil
			c.onTimeout()
		case <-unread:
			shown = nil
			c.onTimeout()
		case <-c.giveUp:
			c.loseSilent()
			c.cluster.hurry = true
			return // cleanUp then kills the agent
		}
	}
}

// onTimeout ends the job because of --timeout. It also limits how long the agents forward remaining output, which could take
// for ever.
func (c *coordinator) onTimeout() {
	state := "all ranks had exited, but their output or child processes remained"
	running := c.failures.running()
	if len(running) > 0 {
		verb, where := "were", ""
		if len(running) == 1 {
			verb = "was"
		}
		if c.task.Nodes == 1 {
			where = " on " + c.task.Host
		}
		state = fmt.Sprintf("%s%s %s still running", console.Ranks(running), where, verb)
	}
	c.timedOut = true
	c.recordFailure(&failure{rank: -1, code: exitcode.TimedOut, time: time.Now().UnixNano(),
		msg: "the job did not end in time", attrs: console.Attrs{Ranks: running, LimitSeconds: c.settings.Timeout.Seconds()},
		reason: fmt.Sprintf("the job did not end within %v (--timeout); %s", c.settings.Timeout, state)})
	c.orderEnd(c.settings.Grace) // also if the agents were ordered to end the job before
}

// agentDied handles the end of the agent's event stream. If the agent was not done, it kills the remaining processes and ends
// the job.
func (c *coordinator) agentDied() {
	if c.nodes[0].done {
		return
	}
	c.local.cleanUp()
	c.endNode(c.nodes[0], true)
	c.failFrom(c.nodes[0], exitcode.Failed, c.local.exitReason(), c.local.diedAt)
}

// handleStart handles news about a command that has started a node, or several.
func (c *coordinator) handleStart(e remote.Event) {
	if e.Note != nil {
		note := *e.Note
		if !c.JSON() {
			note.Text = printable.Line(note.Text)
		}
		c.Log(&note)
	}
	if e.Err == nil {
		return
	}
	for _, n := range c.nodes[1:] {
		if !n.done && (e.Node == n.number || e.Node == 0) {
			c.recordFailure(&failure{rank: -1, code: exitcode.Failed, reason: startLine(e.Err), kind: death, node: n.number,
				time: time.Now().UnixNano(), started: e.Node != 0, msg: "the connection to a node has ended",
				attrs: console.Attrs{PeerNode: &n.number, PeerHost: e.Err.Host, Error: e.Err.Reason}})
			c.endJob(c.settings.FailureGrace)
			return // the nodes that are lost follow
		}
	}
}

// handleRemote processes an event of another node, or the loss of its connection.
func (c *coordinator) handleRemote(r receivedEvent) {
	i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.conn == r.conn })
	if i < 0 && r.event != nil && r.event.Kind == protocol.EventJoin {
		c.cluster.refuseSecond(r, c.Streams, fmt.Sprintf("the job has already started with another node %d", r.conn.Node()))
	}
	if i < 0 || c.nodes[i].done {
		return // the node was refused, or is done
	}
	n := c.nodes[i]
	if r.err != nil {
		c.lose(n, r.loss)
		return
	}
	if err := n.checkEvent(r.event); err != nil {
		c.lose(n, newLoss(n.conn, err, time.Now()))
		return
	}
	c.handleEvent(n, r.event)
}

// lose ends the job because the connection to a node is lost. Other nodes that are lost at the same time may follow, so outcome
// finds out which node is cut off.
func (c *coordinator) lose(n *node, how *loss) {
	n.loss = how
	c.endNode(n, true) // what it has sent is written
	c.recordFailure(&failure{rank: -1, code: exitcode.Failed, kind: death, node: n.number, time: how.since.UnixNano(), lost: true,
		msg: nodeLost, attrs: console.Attrs{PeerNode: &n.number, PeerHost: n.name, Address: n.conn.Remote().String(),
			Error: how.err.Error()}})
	c.endJob(c.settings.FailureGrace)
}

// loseSilent records the loss of the nodes that have been silent for a while. The job ends here without them.
func (c *coordinator) loseSilent() {
	for _, n := range c.nodes[1:] {
		if since, silent := n.conn.Silence(); !n.done && silent {
			err := fmt.Errorf("%w for %v", control.ErrSilent, time.Since(since).Round(time.Second))
			c.lose(n, newLoss(n.conn, err, since))
		}
	}
}

// handleEvent processes an event of an agent.
func (c *coordinator) handleEvent(n *node, e *protocol.Event) {
	if n.conn == nil && c.local.handleEvent(e) {
		return
	}
	switch e.Kind {
	case protocol.EventExchange:
		c.forwardExchange(n, e.Exchange)
	case protocol.EventRecorded:
		c.addRecording(n, e)
	case protocol.EventSignal:
		c.handleRemoteSignal(syscall.Signal(e.Signal), e.Again)
	case protocol.EventFailure:
		c.failFrom(n, e.Code, e.Text, e.Time)
	case protocol.EventOutput:
		c.output.add(n.number, e)
		return
	case protocol.EventInputTaken:
		n.input.taken(e.InputTaken)
	case protocol.EventOutputLost:
		c.handleLostOutputs()
		if n.outputCode != 0 && e.Text == "" { // the consequence of that
			e.Code, e.Text = n.outputCode, n.outputLost
		}
		if c.lostOutput[e.Rank] == "" { // the first reason stays, whichever stream it is of
			c.lostOutput[e.Rank], c.outputCode = e.Text, e.Code
		}
	case protocol.EventNodeRecord:
		n.record = e.NodeRecord
	case protocol.EventPage:
		n.keepPage(e)
	case protocol.EventNeedFile:
		n.sendFile(e.Code)
	case protocol.EventProgress:
		c.local.monitor.SetRemoteProgress(n.number, *e.Progress)
	case protocol.EventInspect:
		c.local.monitor.HandleRemote(n.number, e.Question, e.Answer)
	case protocol.EventDone:
		n.doneAt = time.Now()
		c.linger = max(c.linger, e.Linger)
		c.cluster.peers.setLinger(c.linger)
		c.undelivered, n.incomplete = append(c.undelivered, e.Output...), len(e.Output) > 0
		if e.Text != "" {
			c.lastOutput[e.Rank] = lastOutput{e.Text, e.Shown}
		}
		c.endNode(n, !n.incomplete)
	}
	c.left.handleEvent(e)
	if f := c.failures.handleEvent(e); f != nil {
		f.node, f.time = n.number, e.Time
		if f.rank >= 0 { // an event of a rank on another node may have shown the failure
			f.node = c.nodeOf(f.rank).number
		}
		if why, lost := c.lostOutput[f.rank]; lost {
			f.afterLostOutput(e, why)
		}
		// A failure that the end of the job has caused is not the reason for that end, even if its time is earlier because the
		// clocks of the nodes differ a little.
		if !e.AfterEnd || c.failure == nil {
			c.recordFailure(f)
		}
		if c.endRequested == 0 {
			c.endJob(c.settings.FailureGrace)
		}
	}
	if c.failures.allExited() {
		c.graceOver = nil
		c.endJob(c.settings.FailureGrace)
	}
}

// forwardExchange forwards messages between the PMI servers of the nodes.
func (c *coordinator) forwardExchange(n *node, p *pmi.ExchangeMessage) {
	list, err := c.exchange.Receive(n.number, p)
	if err != nil {
		c.fail(n, exitcode.Failed, "a node has sent an invalid message of PMI", fmt.Sprintf("node %d (%s): %v", n.number, n.name, err))
		return
	}
	for _, d := range list {
		o := &protocol.Order{Exchange: &d.Message}
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

// nodeOf returns the node that has a rank.
func (c *coordinator) nodeOf(rank int) *node {
	return c.nodes[slices.IndexFunc(c.nodes, func(n *node) bool { return n.has(rank) })]
}

// describeRank names a rank, its node and its process, as text and as attributes.
func (c *coordinator) describeRank(rank int, a *console.Attrs) string {
	n := c.nodeOf(rank)
	a.Rank, a.RankNode, a.RankHost, a.PID = &rank, &n.number, n.name, c.failures.ranks[rank].pid
	text := fmt.Sprintf("rank %d on %s", rank, n.name)
	if a.PID != 0 {
		text += fmt.Sprintf(" (pid %d)", a.PID)
	}
	return text
}
