package launch

import (
	"errors"
	"slices"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/tracemerge"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
)

// localRecordings reads what the ranks of this node have left. They have ended.
func (l *localAgent) localRecordings() (ranks []tracemerge.Rank, err error) {
	if l.perfMem == nil || !l.task.Trace && !l.task.Profile {
		return nil, nil
	}
	for i := range l.task.Ranks {
		r := tracemerge.Rank{Rank: l.task.Ranks[i].Rank, Node: l.task.Host}
		var errTrace, errProfile error
		if l.task.Trace {
			r.Trace, errTrace = l.perfMem.read(l.perfMem.traceOf(i), perf.TraceHead, perf.TraceUsed)
		}
		if l.task.Profile {
			r.Profile, errProfile = l.perfMem.read(l.perfMem.profileOf(i), profile.Head, profile.Used)
		}
		err = errors.Join(err, errTrace, errProfile)
		ranks = append(ranks, r)
	}
	return ranks, err
}

// sendRecordings sends what the ranks of this node have left to node 0, or writes it here if that is too much.
func (f *worker) sendRecordings() {
	ranks, err := f.local.localRecordings()
	if err != nil {
		f.Say("%v", err)
	}
	if !splitRecordings(ranks, func(rank int, p *recordingChunk) {
		f.cluster.sendEvent(&event{Kind: evRecorded, Rank: rank, Recorded: p})
	}) {
		f.Say("what the ranks of this node have recorded is too much to be sent to node 0, and is written here")
		f.writeRecordings(f.opts, ranks, "."+f.local.task.Host)
	}
}

// addRecording takes in what a node hands in.
func (c *coordinator) addRecording(n *node, e *event) {
	if err := c.recorded.add(n.number, e.Rank, e.Recorded); err != nil && !n.tooMuch {
		n.tooMuch = true
		c.Say("node %d (%s): %v", n.number, n.name, err)
	}
}

// writeRecordings writes what the ranks of all nodes have left, if that is wanted.
func (c *coordinator) writeRecordings() {
	ranks, err := c.local.localRecordings()
	if err != nil {
		c.Say("%v", err)
	}
	for _, n := range c.nodes[1:] {
		for _, rank := range n.ranks {
			r, err := c.recorded.ofRank(rank, n.name)
			if err != nil {
				c.Say("%v", err)
			}
			ranks = append(ranks, r)
		}
	}
	slices.SortFunc(ranks, func(a, b tracemerge.Rank) int { return a.Rank - b.Rank })
	c.Streams.writeRecordings(c.opts, ranks, "")
}
