package coordinator

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/watcher"
)

// startOwnAgent starts the agent of the node of the coordinator. If the other nodes forward their
// output, the agent writes to pipes, and the output of all nodes is merged.
func startOwnAgent(w *watcher.Watcher, cl *Cluster, nodes []*node, t *protocol.Task, verbose bool,
	s console.Streams) (*localAgent, *mergedOutput, error) {
	if cl.Job.Forwarding == nil {
		l, err := startLocalAgent(w, t, verbose, s, s)
		return l, nil, err
	}
	// Writing to a closed standard output must return an error. Otherwise SIGPIPE would kill this ibrun, and the job with it.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	merged, err := mergeOutput(s, nodes, t.Size == 1, func(n *node, a *protocol.OutputAck) {
		encodeOrder(&protocol.Order{OutputAck: a})(n.conn)
	})
	if err != nil {
		return nil, nil, err
	}
	defer merged.started()
	inherited := s
	inherited.Out, inherited.Err, t.ShowPartial = merged.local[0], merged.local[1], cl.Job.Forwarding.Terminals
	if !nodes[0].has(0) {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, nil, err
		}
		defer null.Close()
		inherited.In = null
	}
	l, err := startLocalAgent(w, t, verbose, s, inherited)
	if err != nil {
		return nil, nil, err
	}
	l.drawBar = merged.merger.DrawBar
	for _, n := range nodes {
		n.output = merged
	}
	return l, merged, nil
}

// startInput forwards standard input to the node of rank 0, unless that is this node, or the user has started it.
func (c *coordinator) startInput(of *node) {
	if c.output != nil && of.conn != nil {
		of.input = sendInput(c.Streams, func(o *protocol.Order) { sendOwn(of.conn, o) })
	}
}

// endStreams ends the input, and records which output was not written.
func (c *coordinator) endStreams() {
	for _, n := range c.nodes {
		if n.input != nil {
			n.input.end()
		}
	}
	c.handleLostOutputs()
	c.undelivered = append(c.undelivered, c.output.undelivered(c.nodes)...)
}

// allDone reports whether no process of the job is left on any node.
func (c *coordinator) allDone() bool {
	return !slices.ContainsFunc(c.nodes, func(n *node) bool { return !n.done })
}

// isRunning reports whether a process of the job is left, or output that is to be written.
func (c *coordinator) isRunning() bool { return !c.allDone() || c.output.busy() && !c.outputGiven }

// endNode records that no process of the job is left on a node. Unless its output is complete, the rest of it is dropped.
func (c *coordinator) endNode(n *node, complete bool) {
	n.done = true
	if c.output == nil {
		return
	}
	if n.conn == nil {
		c.local.cleanUp() // the agent has its ends of the pipes open until it has exited
	}
	c.output.endNode(n.number, complete)
	c.limitOutput()
}

// limitOutput limits how long the remaining output may take, as an agent does for its own, if all nodes are done and there is a
// limit. If a node has waited for that long already, the others need no longer.
func (c *coordinator) limitOutput() {
	if c.output == nil || !c.allDone() {
		return
	}
	limit := c.outputTimeout()
	if slices.ContainsFunc(c.nodes, func(n *node) bool { return n.incomplete }) {
		limit = requestedOutputTimeout
	}
	if limit > 0 {
		c.outputOver = time.After(limit)
	}
}

// handleLostOutput records that output of a node cannot be written. The node has noticed it too, and its ranks get an error
// when they write.
func (c *coordinator) handleLostOutput(l lostOutput) {
	n := c.nodes[l.node]
	code, why := l.code()
	if n.outputLost != "" {
		return // the first reason stays, whichever stream it is of
	}
	if n.outputCode == 0 && why != "" {
		c.Warn("the output of a node cannot be forwarded", console.Attrs{PeerNode: &n.number, PeerHost: n.name, Error: why,
			Text: fmt.Sprintf("the output of node %d (%s) cannot be forwarded: %s", n.number, n.name, why)})
	}
	n.outputCode, n.outputLost, c.outputCode = code, why, code
}

// handleLostOutputs handles the failures that were found until now. It is called before an event that they may have caused, and
// at the end, since the order in which handleEvents receives from its channels is random.
func (c *coordinator) handleLostOutputs() {
	for {
		select {
		case l := <-c.output.failures():
			c.handleLostOutput(l)
		default:
			return
		}
	}
}

// lostNodeOutput returns messages about output that was lost although no agent has noticed it.
func (c *coordinator) lostNodeOutput() (all []message.Message) {
	for _, n := range c.nodes {
		known := slices.ContainsFunc(n.ranks, func(rank int) bool { return c.lostOutput[rank] != "" })
		if n.outputLost != "" && !known {
			all = append(all, message.Message{Level: slog.LevelError, Msg: outputLost, Attrs: console.Attrs{Ranks: n.ranks,
				RankNode: &n.number, RankHost: n.name, Error: n.outputLost,
				Text: fmt.Sprintf("output of %s on %s was lost: %s", console.Ranks(n.ranks), n.name, n.outputLost)}})
		}
	}
	return all
}

// lastOutput is the last output of a rank that failed.
type lastOutput struct {
	text  string
	shown int // how many bytes it takes at the end of the standard error of its node; 0: it is not there
}

// addLastOutput adds a message with the last output of the rank that failed. If that output is already the end of the standard
// error of a node, it records the node, which does not print it again.
func (c *coordinator) addLastOutput(v *protocol.Outcome, f *failure) {
	last := c.lastOutput[f.rank]
	if last.text == "" {
		return
	}
	at := len(v.Messages)
	v.Messages = append(v.Messages, message.Message{Level: slog.LevelInfo, Msg: "the last output of the rank that has failed",
		Attrs: console.Attrs{Rank: &f.rank, RankNode: &f.node, RankHost: c.nodes[f.node].name, LastOutput: last.text,
			Text: fmt.Sprintf("the last output of rank %d was", f.rank)}})
	switch {
	case last.shown <= 0:
	case c.output == nil:
		v.Repeated = &protocol.Repeated{Message: at, Node: f.node}
	case c.output.merger.Stderr.Shown(c.output.origins[f.node], last.shown) > 0:
		v.Repeated = &protocol.Repeated{Message: at} // this node shows the output of all nodes
	}
}
