package launch

import (
	"errors"
	"slices"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/tracemerge"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
)

// Recordings reads what the ranks of this node have left. They have ended.
func (m *Monitor) Recordings() (ranks []tracemerge.Rank, err error) {
	if m.mem == nil || !m.task.Trace && !m.task.Profile {
		return nil, nil
	}
	for i := range m.task.Ranks {
		r := tracemerge.Rank{Rank: m.task.Ranks[i].Rank, Node: m.task.Host}
		var errTrace, errProfile error
		if m.task.Trace {
			r.Trace, errTrace = m.mem.Read(m.mem.TraceOf(i), perf.TraceHead, perf.TraceUsed)
		}
		if m.task.Profile {
			r.Profile, errProfile = m.mem.Read(m.mem.ProfileOf(i), profile.Head, profile.Used)
		}
		err = errors.Join(err, errTrace, errProfile)
		ranks = append(ranks, r)
	}
	return ranks, err
}

// sendRecordings sends what the ranks of this node have left to node 0, or writes it here if that is too much.
func (w *worker) sendRecordings() {
	ranks, err := w.local.monitor.Recordings()
	if err != nil {
		w.Say("%v", err)
	}
	if !SplitRecordings(ranks, func(rank int, p *RecordingChunk) {
		w.cluster.sendEvent(&Event{Kind: EventRecorded, Rank: rank, Recorded: p})
	}) {
		w.Say("what the ranks of this node have recorded is too much to be sent to node 0, and is written here")
		WriteRecordings(w.Streams, w.opts, ranks, "."+w.local.task.Host)
	}
}

// addRecording takes in what a node hands in.
func (c *coordinator) addRecording(n *node, e *Event) {
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
	WriteRecordings(c.Streams, c.opts, ranks, "")
}
