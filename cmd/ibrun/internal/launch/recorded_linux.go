package launch

import (
	"errors"
	"slices"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/tracemerge"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/profile"
)

// collect reads what the ranks of this node have left. They have ended.
func (l *local) collect() (ranks []tracemerge.Rank, err error) {
	if l.pages == nil || !l.t.Trace && !l.t.Profile {
		return nil, nil
	}
	for i := range l.t.Ranks {
		r := tracemerge.Rank{Rank: l.t.Ranks[i].Rank, Node: l.t.Host}
		var errTrace, errProfile error
		if l.t.Trace {
			r.Trace, errTrace = l.pages.copy(l.pages.traceOf(i), perf.TraceHead, perf.TraceUsed)
		}
		if l.t.Profile {
			r.Profile, errProfile = l.pages.copy(l.pages.profileOf(i), profile.Head, profile.Used)
		}
		err = errors.Join(err, errTrace, errProfile)
		ranks = append(ranks, r)
	}
	return ranks, err
}

// handIn sends what the ranks of this node have left to node 0, or writes it here if that is too much.
func (f *follower) handIn() {
	ranks, err := f.local.collect()
	if err != nil {
		f.say("%v", err)
	}
	if !pieces(ranks, func(rank int, p *recorded) { f.m.report(&event{Kind: evRecorded, Rank: rank, Recorded: p}) }) {
		f.say("what the ranks of this node have recorded is too much to be sent to node 0, and is written here")
		f.write(f.o, ranks, "."+f.local.t.Host)
	}
}

// hand takes in what a node hands in.
func (c *conductor) hand(n *node, e *event) {
	if err := c.recorded.add(n.number, e.Rank, e.Recorded); err != nil && !n.excess {
		n.excess = true
		c.say("node %d (%s): %v", n.number, n.name, err)
	}
}

// write writes what the ranks of all nodes have left, if that is wanted.
func (c *conductor) write() {
	ranks, err := c.local.collect()
	if err != nil {
		c.say("%v", err)
	}
	for _, n := range c.nodes[1:] {
		for _, rank := range n.ranks {
			r, err := c.recorded.rank(rank, n.name)
			if err != nil {
				c.say("%v", err)
			}
			ranks = append(ranks, r)
		}
	}
	slices.SortFunc(ranks, func(a, b tracemerge.Rank) int { return a.Rank - b.Rank })
	c.Streams.write(c.o, ranks, "")
}
