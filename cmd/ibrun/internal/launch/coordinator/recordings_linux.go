package coordinator

import (
	"slices"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/tracemerge"
)

// sendRecordings sends what the ranks of this node have left to node 0, or writes it here if that is too much.
func (w *worker) sendRecordings() {
	ranks, err := w.local.monitor.Recordings()
	if err != nil {
		w.Say("%v", err)
	}
	if !monitor.SplitRecordings(ranks, func(rank int, p *protocol.RecordingChunk) {
		w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventRecorded, Rank: rank, Recorded: p})
	}) {
		w.Say("what the ranks of this node have recorded is too much to be sent to node 0, and is written here")
		monitor.WriteRecordings(w.Streams, w.opts, ranks, "."+w.local.task.Host)
	}
}

// addRecording takes in what a node hands in.
func (c *coordinator) addRecording(n *node, e *protocol.Event) {
	if err := c.recorded.Add(n.number, e.Rank, e.Recorded); err != nil && !n.tooMuch {
		n.tooMuch = true
		c.Say("node %d (%s): %v", n.number, n.name, err)
	}
}

// writeRecordings writes what the ranks of all nodes have left, if that is wanted.
func (c *coordinator) writeRecordings() {
	ranks, err := c.local.monitor.Recordings()
	if err != nil {
		c.Say("%v", err)
	}
	for _, n := range c.nodes[1:] {
		for _, rank := range n.ranks {
			r, err := c.recorded.OfRank(rank, n.name)
			if err != nil {
				c.Say("%v", err)
			}
			ranks = append(ranks, r)
		}
	}
	slices.SortFunc(ranks, func(a, b tracemerge.Rank) int { return a.Rank - b.Rank })
	monitor.WriteRecordings(c.Streams, c.opts, ranks, "")
}
