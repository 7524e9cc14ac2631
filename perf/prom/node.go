package prom

import (
	"io/fs"
	"sync"
	"time"

	"github.com/ibrun/ibrun/perf"
)

// Node is the source of the metrics of a job on one node. Its exported fields must not change after its first use.
type Node struct {
	Job, Name string
	// Ranks returns the state of the ranks of this node, always in the same order. It is called at each scrape, by one goroutine
	// at a time.
	Ranks func() []Rank
	// ExitCode returns the exit code of the job, and false before its end. Nil means that the job does not end.
	ExitCode func() (code int, ended bool)
	// Root is the root directory of the node, under which RDMA devices are read; nil omits them.
	Root fs.FS
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	mu      sync.Mutex
	history map[int]*rankHistory // by rank
}

// Rank is a rank at the moment of a scrape.
type Rank struct {
	// Rank is the number in the job.
	Rank int
	// Snapshot is the content of the rank's page; nil if the rank has not written it, or it cannot be read.
	Snapshot *perf.Snapshot
	// Err is the reason why the page cannot be read; nil for a page that was never written.
	Err error
	// Dead reports that the process has ended.
	Dead bool
	// Process is what the process uses; nil if it is not known, as after its end.
	Process *Process
}

// Process is what the process of a rank uses.
type Process struct {
	// CPU is the processor time that it has used.
	CPU time.Duration
	// Resident is its resident memory in bytes, and ResidentHigh the largest amount so far.
	Resident, ResidentHigh uint64
}

// rankHistory is the last known state of a rank.
type rankHistory struct {
	snapshot  *perf.Snapshot
	used      Process
	died      time.Time
	firstSeen map[perf.Current]time.Time // of the calls in progress
}

// rankState is the state of a rank in one scrape.
type rankState struct {
	Rank
	used   Process
	wall   time.Duration
	oldest time.Duration
}

// label returns the rank's state as a label value of ibrun_ranks.
func (s *rankState) label() string {
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

// stateLabels lists all values that label returns.
var stateLabels = []string{"silent", "running", "finalized", "dead"}

// sampleRanks returns the state of all ranks, and updates their histories.
func (n *Node) sampleRanks() []rankState {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if n.Now != nil {
		now = n.Now()
	}
	if n.history == nil {
		n.history = map[int]*rankHistory{}
	}
	ranks := n.Ranks()
	all := make([]rankState, len(ranks))
	for i, r := range ranks {
		k := n.history[r.Rank]
		if k == nil {
			k = &rankHistory{}
			n.history[r.Rank] = k
		}
		all[i] = k.update(r, now)
	}
	return all
}

// update records the present state of a rank and returns its state for the scrape. After the death of a rank its run time does
// not grow, and it has no calls in progress.
func (k *rankHistory) update(r Rank, now time.Time) rankState {
	if r.Snapshot != nil {
		k.snapshot = r.Snapshot
	}
	k.used.Resident = 0
	if p := r.Process; p != nil { // the process of the program may have taken the place of one that has started it
		k.used = Process{max(k.used.CPU, p.CPU), p.Resident, max(k.used.ResidentHigh, p.ResidentHigh)}
	}
	s := rankState{Rank: r, used: k.used}
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
		first, seen := k.firstSeen[c]
		if !seen {
			first = now
		}
		since[c] = first
		s.oldest = max(s.oldest, now.Sub(first))
	}
	k.firstSeen = since
	return s
}
