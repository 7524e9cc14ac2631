package monitor

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/perf/jobs"
)

// remoteTimeout is how long a node waits for answers of other nodes. A node that collects answers for another one gives the
// others less time.
const remoteTimeout = time.Second

// ranksPerMessage is the number of ranks in one message, which keeps it far below the size limit.
const ranksPerMessage = 128

// maxQuestions is how many questions of a node are answered at the same time, wherever they arrive:
// the coordinator also passes on those of all others. Further ones get no answer, as if it came too
// late. A node has one for each connection to its status server, and one for its hang view.
const maxQuestions = 64

// RemoteNode is another node that this one can query. The coordinator queries each node about its
// own ranks. Another node queries the coordinator about all ranks that are not its own.
type RemoteNode struct {
	Number int
	Ranks  []int // the ranks that it is queried about, ascending
	Send   func(*protocol.Question, *protocol.Answer)

	questions atomic.Int32 // that are being answered
}

// remoteRequest is a question that has not been answered completely.
type remoteRequest struct {
	node   *RemoteNode
	ranks  map[int]jobs.Rank // the answer, by rank
	stacks map[int]string
	done   chan struct{} // closed when the answer is complete
}

// ConnectNodes sets the host name of each rank, and the nodes that this one can query. It must be called before Start.
func (m *Monitor) ConnectNodes(hosts []string, remotes []*RemoteNode) {
	m.hosts, m.remotes = hosts, remotes
}

// allRanks returns the ranks of this node and of all remote nodes but one, the node that asks. It waits for answers at most
// remoteTimeout. Ranks of a node that has not answered have the state [jobs.Unreachable].
func (m *Monitor) allRanks(ctx context.Context, but *RemoteNode) []jobs.Rank {
	answers := m.queryRemotes(ctx, but, func(*RemoteNode) *protocol.Question { return &protocol.Question{} })
	all := m.localRanks()
	for _, a := range answers {
		for _, rank := range a.node.Ranks {
			r, ok := a.ranks[rank]
			if !ok {
				r = jobs.Rank{Rank: rank, State: jobs.Unreachable}
			}
			all = append(all, r)
		}
	}
	if m.hosts != nil {
		for i := range all {
			all[i].Host = m.hosts[all[i].Rank]
		}
	}
	slices.SortFunc(all, func(a, b jobs.Rank) int { return a.Rank - b.Rank })
	return all
}

// queryRemotes queries all remote nodes but one. ask returns the question for a node, or nil to skip it. Answers that are
// incomplete at the timeout are returned as far as they were received.
func (m *Monitor) queryRemotes(ctx context.Context, but *RemoteNode,
	ask func(*RemoteNode) *protocol.Question) (answers []*remoteRequest) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	open := map[uint64]*remoteRequest{}
	for _, n := range m.remotes {
		if n == but {
			continue
		}
		q := ask(n)
		if q == nil {
			continue
		}
		m.mu.Lock()
		m.lastRequest++
		q.ID = m.lastRequest
		i := &remoteRequest{node: n, ranks: map[int]jobs.Rank{}, stacks: map[int]string{}, done: make(chan struct{})}
		m.openRequests[q.ID], open[q.ID] = i, i
		m.mu.Unlock()
		deadline, _ := ctx.Deadline()
		q.Timeout = time.Until(deadline) * 3 / 4
		n.Send(q, nil)
	}
	for _, i := range open {
		select {
		case <-i.done:
		case <-ctx.Done():
		case <-m.ctx.Done():
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, i := range open {
		delete(m.openRequests, id) // the answer does not change any more
		answers = append(answers, i)
	}
	return answers
}

// HandleRemote processes a question or an answer from another node. An answer must be about ranks that the node is queried about.
// HandleRemote does not block.
func (m *Monitor) HandleRemote(node int, q *protocol.Question, a *protocol.Answer) {
	at := slices.IndexFunc(m.remotes, func(n *RemoteNode) bool { return n.Number == node })
	if at < 0 {
		return
	}
	n := m.remotes[at]
	switch {
	case q == nil:
	case len(q.Stacks) > len(m.hosts): // of more ranks than there are
	case int(n.questions.Add(1)) > m.maxQuestionsOf(n):
		n.questions.Add(-1)
	default:
		m.goroutines.Go(func() {
			defer n.questions.Add(-1)
			m.answerRemote(n, q)
		})
	}
	if a == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.openRequests[a.ID]
	if i == nil || i.node != n {
		return // the answer is too late
	}
	for _, r := range a.Ranks { // the sender is queried about no others
		i.ranks[r.Rank] = r
	}
	maps.Copy(i.stacks, a.Stacks)
	if !a.More {
		delete(m.openRequests, a.ID)
		close(i.done)
	}
}

// maxQuestionsOf returns how many questions from another node are answered at the same time.
func (m *Monitor) maxQuestionsOf(n *RemoteNode) int {
	if n.Number == 0 {
		return maxQuestions * m.task.Nodes
	}
	return maxQuestions
}

// answerRemote sends another node the answer to its question.
func (m *Monitor) answerRemote(n *RemoteNode, q *protocol.Question) {
	ctx, cancel := context.WithTimeout(m.ctx, min(q.Timeout, m.timeout))
	defer cancel()
	if len(q.Stacks) == 0 {
		for piece := range slices.Chunk(m.allRanks(ctx, n), ranksPerMessage) {
			n.Send(nil, &protocol.Answer{ID: q.ID, Ranks: piece, More: true})
		}
		n.Send(nil, &protocol.Answer{ID: q.ID})
		return
	}
	for rank, text := range m.allStacks(ctx, q.Stacks, n) {
		n.Send(nil, &protocol.Answer{ID: q.ID, Stacks: map[int]string{rank: text}, More: true})
	}
	n.Send(nil, &protocol.Answer{ID: q.ID})
}
