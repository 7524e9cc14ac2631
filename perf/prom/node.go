package prom

import (
	"io/fs"
	"sync"
	"time"

	"github.com/ibrun/ibrun/perf"
)

// Node is what is shown of a job on one node. Its fields are not changed once it is used.
type Node struct {
	Job, Name string
	// Ranks tells how the ranks of this node are, always in the same order. It is asked at each scrape, by one goroutine at a time.
	Ranks func() []Rank
	// Root is the root directory of the node, where RDMA devices are looked for; nil: they are not shown.
	Root fs.FS
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	mu   sync.Mutex
	last map[int]*known // by rank
}

// Rank is a rank at the moment of a scrape.
type Rank struct {
	// Rank is the number in the job.
	Rank int
	// Snapshot is what the page says; nil if nobody has written it, or it cannot be read.
	Snapshot *perf.Snapshot
	// Err is why the page cannot be read; nil for one that nobody has written.
	Err error
	// Dead says that the process is no more.
	Dead bool
}

// known is what was seen of a rank so far.
type known struct {
	snapshot *perf.Snapshot
	died     time.Time
	since    map[perf.Current]time.Time // of the calls under way
}

// state is a rank as it is shown.
type state struct {
	Rank
	wall   time.Duration
	oldest time.Duration
}

// word is the rank's state as the label of ibrun_ranks.
func (s *state) word() string {
	switch {
	case s.Snapshot != nil && s.Snapshot.State == perf.Finalized:
		return "finalized"
	case s.Dead:
		return "dead"
	case s.Snapshot == nil:
		return "silent"
	}
	return "running"
}

// words are all that word returns.
var words = []string{"silent", "running", "finalized", "dead"}

// look asks how the ranks are, and fills in what is known from before.
func (n *Node) look() []state {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.Now != nil {
		now = n.Now()
	}
	if n.last == nil {
		n.last = map[int]*known{}
	}
	ranks := n.Ranks()
	all := make([]state, len(ranks))
	for i, r := range ranks {
		k := n.last[r.Rank]
		if k == nil {
			k = &known{}
			n.last[r.Rank] = k
		}
		all[i] = k.see(r, now)
	}
	return all
}

// see takes in how a rank is now. Of one that is dead the clock and the calls under way stand still.
func (k *known) see(r Rank, now time.Time) state {
	if r.Snapshot != nil {
		k.snapshot = r.Snapshot
	}
	s := state{Rank: r}
	if s.Snapshot = k.snapshot; s.Snapshot == nil {
		return s
	}
	if r.Dead {
		if k.died.IsZero() {
			k.died = now
		}
		s.wall = s.Snapshot.Wall(k.died)
		return s
	}
	s.wall = s.Snapshot.Wall(now)
	since := make(map[perf.Current]time.Time, len(s.Snapshot.Current))
	for _, c := range s.Snapshot.Current {
		first, seen := k.since[c]
		if !seen {
			first = now
		}
		since[c] = first
		s.oldest = max(s.oldest, now.Sub(first))
	}
	k.since = since
	return s
}
