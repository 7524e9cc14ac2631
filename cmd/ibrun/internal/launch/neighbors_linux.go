package launch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
)

// farPatience is how long other nodes have to tell what their ranks do. Whoever answers for others gives these less.
const remoteTimeout = time.Second

// rankPiece is how many ranks are told in one message, which so stays far below the limit.
const ranksPerMessage = 128

// remoteNode is another node that this one asks. Node 0 asks each about its own ranks, and these ask node 0 about all others.
type remoteNode struct {
	number int
	ranks  []int // that it is asked about, ascending
	send   func(*question, *answer)
}

// remoteRequest is a question that has not been answered.
type remoteRequest struct {
	node   *remoteNode
	answer answer
	done   chan struct{} // closed when all of the answer is there
}

// connectNodes makes known which ranks are on other nodes, and how these are asked. Nobody looks yet.
func (k *monitor) connectNodes(m *cluster, where layout) {
	if len(where.ranksOn) == 1 {
		return
	}
	var others []int
	for rank, node := range where.nodeOf {
		k.hosts = append(k.hosts, m.welcome.Names[node])
		if node != k.job.Node {
			others = append(others, rank)
		}
	}
	if m.node0 != nil {
		k.reportProgress = func(p progress) { m.sendEvent(&event{Kind: evProgress, Progress: &p}) }
		k.remotes = []*remoteNode{{0, others, func(q *question, a *answer) { m.sendEvent(&event{Kind: evInspect, Question: q, Answer: a}) }}}
		return
	}
	for i, g := range m.workers {
		if i > 0 {
			say := func(q *question, a *answer) { encodeOrder(&order{Question: q, Answer: a})(g.conn) }
			k.remotes = append(k.remotes, &remoteNode{i, where.ranksOn[i], say})
		}
	}
}

// allRanks are those here and, as far as they are told, those of all neighbors but the one that asks. It waits for these as long
// as farPatience.
func (k *monitor) allRanks(ctx context.Context, but *remoteNode) []inspect.Rank {
	told := k.queryRemotes(ctx, but, func(*remoteNode) *question { return &question{} })
	all := k.localRanks()
	for n, a := range told {
		heard := map[int]inspect.Rank{}
		for _, r := range a.Ranks {
			heard[r.Rank] = r
		}
		for _, rank := range n.ranks {
			r, ok := heard[rank]
			if !ok {
				r = inspect.Rank{Rank: rank, State: inspect.Unheard}
			}
			all = append(all, r)
		}
	}
	if k.hosts != nil {
		for i := range all {
			all[i].Host = k.hosts[all[i].Rank]
		}
	}
	slices.SortFunc(all, func(a, b inspect.Rank) int { return a.Rank - b.Rank })
	return all
}

// allStacks are those of some ranks, here and of all neighbors but the one that asks, as far as they answer before ctx ends, and
// within farPatience.
func (k *monitor) allStacks(ctx context.Context, ranks []int, but *remoteNode) map[int]string {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	var mine []int
	for _, rank := range ranks {
		if k.l.task.localIndex(rank) >= 0 {
			mine = append(mine, rank)
		}
	}
	var texts map[int]string
	var own sync.WaitGroup
	own.Go(func() { texts = k.localStacks(ctx, mine) })
	told := k.queryRemotes(ctx, but, func(n *remoteNode) *question {
		var theirs []int
		for _, rank := range ranks {
			if _, found := slices.BinarySearch(n.ranks, rank); found {
				theirs = append(theirs, rank)
			}
		}
		if theirs == nil {
			return nil
		}
		return &question{Stacks: theirs}
	})
	own.Wait()
	for n, a := range told {
		for rank, text := range a.Stacks {
			if _, found := slices.BinarySearch(n.ranks, rank); found {
				texts[rank] = text
			}
		}
	}
	return texts
}

// queryRemotes asks all neighbors but one, each what is made for it, or nothing if that is nil. Of those that have not answered in
// time there is what has come.
func (k *monitor) queryRemotes(ctx context.Context, but *remoteNode, ask func(*remoteNode) *question) map[*remoteNode]answer {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	open := map[uint64]*remoteRequest{}
	for _, n := range k.remotes {
		if n == but {
			continue
		}
		q := ask(n)
		if q == nil {
			continue
		}
		k.mu.Lock()
		k.lastRequest++
		q.ID = k.lastRequest
		i := &remoteRequest{node: n, done: make(chan struct{})}
		k.openRequests[q.ID], open[q.ID] = i, i
		k.mu.Unlock()
		deadline, _ := ctx.Deadline()
		q.Timeout = time.Until(deadline) * 3 / 4
		n.send(q, nil)
	}
	for _, i := range open {
		select {
		case <-i.done:
		case <-ctx.Done():
		case <-k.ctx.Done():
		}
	}
	answers := map[*remoteNode]answer{}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, i := range open {
		delete(k.openRequests, id)
		answers[i.node] = i.answer
	}
	return answers
}

// handleRemote takes in what another node asks or tells. It does not wait.
func (k *monitor) handleRemote(node int, q *question, a *answer) {
	at := slices.IndexFunc(k.remotes, func(n *remoteNode) bool { return n.number == node })
	if at < 0 {
		return
	}
	n := k.remotes[at]
	if q != nil {
		k.goroutines.Go(func() { k.answerRemote(n, q) })
	}
	if a == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	i := k.openRequests[a.ID]
	if i == nil || i.node != n {
		return // it comes too late
	}
	i.answer.Ranks = append(i.answer.Ranks, a.Ranks...)
	if i.answer.Stacks == nil {
		i.answer.Stacks = map[int]string{}
	}
	maps.Copy(i.answer.Stacks, a.Stacks)
	if !a.More {
		delete(k.openRequests, a.ID)
		close(i.done)
	}
}

// answerRemote tells another node what it asked for.
func (k *monitor) answerRemote(n *remoteNode, q *question) {
	ctx, cancel := context.WithTimeout(k.ctx, min(q.Timeout, remoteTimeout))
	defer cancel()
	if len(q.Stacks) == 0 {
		for piece := range slices.Chunk(k.allRanks(ctx, n), ranksPerMessage) {
			n.send(nil, &answer{ID: q.ID, Ranks: piece, More: true})
		}
		n.send(nil, &answer{ID: q.ID})
		return
	}
	for rank, text := range k.allStacks(ctx, q.Stacks, n) {
		n.send(nil, &answer{ID: q.ID, Stacks: map[int]string{rank: text}, More: true})
	}
	n.send(nil, &answer{ID: q.ID})
}
