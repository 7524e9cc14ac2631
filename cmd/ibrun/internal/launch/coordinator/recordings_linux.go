package coordinator

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/tracemerge"
)

// sendRecordings sends the traces and profiles of this node's ranks to the coordinator. If they are
// too large, it writes files on this node.
func (w *worker) sendRecordings() {
	ranks, err := w.local.monitor.Recordings()
	if err != nil {
		w.Warn(noRecordings, console.Attrs{Error: err.Error(), Text: err.Error()})
	}
	if !monitor.SplitRecordings(ranks, func(rank int, p *protocol.RecordingChunk) {
		w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventRecorded, Rank: rank, Recorded: p})
	}) {
		w.Warn("the traces and profiles of this node's ranks are too large to be sent to node 0; they are written on this node",
			console.Attrs{})
		w.settings.Recordings.Write(w.Streams, ranks, "."+w.local.task.Host)
	}
}

// addRecording stores a chunk of a trace or profile that a node has sent.
func (c *coordinator) addRecording(n *node, e *protocol.Event) {
	if err := c.recorded.Add(n.number, e.Rank, e.Recorded); err != nil && !n.tooMuch {
		n.tooMuch = true
		c.Warn(noRecordings, console.Attrs{PeerNode: &n.number, PeerHost: n.name, Error: err.Error(),
			Text: fmt.Sprintf("node %d (%s): %v", n.number, n.name, err)})
	}
}

// writeRecordings writes the traces and profiles of the ranks of all nodes to the files that the user asked for.
func (c *coordinator) writeRecordings() {
	ranks, err := c.local.monitor.Recordings()
	if err != nil {
		c.Warn(noRecordings, console.Attrs{Error: err.Error(), Text: err.Error()})
	}
	for _, n := range c.nodes[1:] {
		for _, rank := range n.ranks {
			r, err := c.recorded.OfRank(rank, n.name)
			if err != nil {
				c.Warn(noRecordings, console.Attrs{Rank: &rank, Error: err.Error(), Text: err.Error()})
			}
			ranks = append(ranks, r)
		}
	}
	slices.SortFunc(ranks, func(a, b tracemerge.Rank) int { return a.Rank - b.Rank })
	c.settings.Recordings.Write(c.Streams, ranks, "")
}
