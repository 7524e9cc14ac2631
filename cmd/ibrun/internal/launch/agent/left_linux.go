package agent

import (
	"sync"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// maxLeftRanks is the number of ranks in one [ranklink.Left], which then fits a packet.
const maxLeftRanks = 4096

// leftRanks are the ranks of the job that have left it, in the order in which the coordinator has
// announced them. Every rank of this node that reads its link receives all of them.
type leftRanks struct {
	mu    sync.Mutex
	added sync.Cond // with mu: ranks has grown
	ranks []int
	known map[int]bool // of ranks
}

func (l *leftRanks) init() { l.added.L, l.known = &l.mu, map[int]bool{} }

// add records ranks that have left, each once.
func (l *leftRanks) add(ranks []int) {
	l.mu.Lock()
	for _, rank := range ranks {
		if !l.known[rank] {
			l.known[rank] = true
			l.ranks = append(l.ranks, rank)
		}
	}
	l.mu.Unlock()
	l.added.Broadcast()
}

// next blocks until more than seen ranks have left, and returns the next ones.
func (l *leftRanks) next(seen int) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ranks) == seen {
		l.added.Wait()
	}
	return l.ranks[seen:min(seen+maxLeftRanks, len(l.ranks))]
}

// announceLeft sends a rank the ranks that have left, until that rank has finalized or ended. A goroutine for each rank does
// it, so that a rank which is stopped, and does not read its link, delays nothing else.
func (a *agent) announceLeft(r *rank) {
	for seen := 0; ; {
		ranks := a.left.next(seen)
		seen += len(ranks)
		if a.exits.ranks[a.task.LocalIndex(r.task.Rank)].finalized.Load() {
			return
		}
		if r.link.Send(ranklink.KindLeft, ranklink.Left{Ranks: ranks}) != nil {
			return // the rank has ended
		}
	}
}
