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
const farPatience = time.Second

// rankPiece is how many ranks are told in one message, which so stays far below the limit.
const rankPiece = 128

// neighbor is another node that this one asks. Node 0 asks each about its own ranks, and these ask node 0 about all others.
type neighbor struct {
	number int
	ranks  []int // that it is asked about, ascending
	say    func(*question, *answer)
}

// inquiry is a question that has not been answered.
type inquiry struct {
	of   *neighbor
	told answer
	done chan struct{} // closed when all of the answer is there
}

// join makes known which ranks are on other nodes, and how these are asked. Nobody looks yet.
func (k *looks) join(m *meeting, where layout) {
	if len(where.of) == 1 {
		return
	}
	var others []int
	for rank, node := range where.at {
		k.hosts = append(k.hosts, m.welcome.Names[node])
		if node != k.job.Node {
			others = append(others, rank)
		}
	}
	if m.zero != nil {
		k.told = func(p progress) { m.report(&event{Kind: evProgress, Progress: &p}) }
		k.neighbors = []*neighbor{{0, others, func(q *question, a *answer) { m.report(&event{Kind: evLook, Question: q, Answer: a}) }}}
		return
	}
	for i, g := range m.guests {
		if i > 0 {
			say := func(q *question, a *answer) { pack(&order{Question: q, Answer: a})(g.conn) }
			k.neighbors = append(k.neighbors, &neighbor{i, where.of[i], say})
		}
	}
}

// ranks are those here and, as far as they are told, those of all neighbors but the one that asks. It waits for these as long
// as farPatience.
func (k *looks) ranks(ctx context.Context, but *neighbor) []inspect.Rank {
	told := k.inquire(ctx, but, func(*neighbor) *question { return &question{} })
	all := k.own()
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

// stacks are those of some ranks, here and of all neighbors but the one that asks, as far as they answer before ctx ends, and
// within farPatience.
func (k *looks) stacks(ctx context.Context, ranks []int, but *neighbor) map[int]string {
	ctx, cancel := context.WithTimeout(ctx, farPatience)
	defer cancel()
	var mine []int
	for _, rank := range ranks {
		if k.l.t.local(rank) >= 0 {
			mine = append(mine, rank)
		}
	}
	var texts map[int]string
	var own sync.WaitGroup
	own.Go(func() { texts = k.ownStacks(ctx, mine) })
	told := k.inquire(ctx, but, func(n *neighbor) *question {
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

// inquire asks all neighbors but one, each what is made for it, or nothing if that is nil. Of those that have not answered in
// time there is what has come.
func (k *looks) inquire(ctx context.Context, but *neighbor, ask func(*neighbor) *question) map[*neighbor]answer {
	ctx, cancel := context.WithTimeout(ctx, farPatience)
	defer cancel()
	open := map[uint64]*inquiry{}
	for _, n := range k.neighbors {
		if n == but {
			continue
		}
		q := ask(n)
		if q == nil {
			continue
		}
		k.mu.Lock()
		k.last++
		q.ID = k.last
		i := &inquiry{of: n, done: make(chan struct{})}
		k.open[q.ID], open[q.ID] = i, i
		k.mu.Unlock()
		deadline, _ := ctx.Deadline()
		q.Patience = time.Until(deadline) * 3 / 4
		n.say(q, nil)
	}
	for _, i := range open {
		select {
		case <-i.done:
		case <-ctx.Done():
		case <-k.ctx.Done():
		}
	}
	answers := map[*neighbor]answer{}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, i := range open {
		delete(k.open, id)
		answers[i.of] = i.told
	}
	return answers
}

// hearFar takes in what another node asks or tells. It does not wait.
func (k *looks) hearFar(node int, q *question, a *answer) {
	at := slices.IndexFunc(k.neighbors, func(n *neighbor) bool { return n.number == node })
	if at < 0 {
		return
	}
	n := k.neighbors[at]
	if q != nil {
		k.busy.Go(func() { k.reply(n, q) })
	}
	if a == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	i := k.open[a.ID]
	if i == nil || i.of != n {
		return // it comes too late
	}
	i.told.Ranks = append(i.told.Ranks, a.Ranks...)
	if i.told.Stacks == nil {
		i.told.Stacks = map[int]string{}
	}
	maps.Copy(i.told.Stacks, a.Stacks)
	if !a.More {
		delete(k.open, a.ID)
		close(i.done)
	}
}

// reply tells another node what it asked for.
func (k *looks) reply(n *neighbor, q *question) {
	ctx, cancel := context.WithTimeout(k.ctx, min(q.Patience, farPatience))
	defer cancel()
	if len(q.Stacks) == 0 {
		for piece := range slices.Chunk(k.ranks(ctx, n), rankPiece) {
			n.say(nil, &answer{ID: q.ID, Ranks: piece, More: true})
		}
		n.say(nil, &answer{ID: q.ID})
		return
	}
	for rank, text := range k.stacks(ctx, q.Stacks, n) {
		n.say(nil, &answer{ID: q.ID, Stacks: map[int]string{rank: text}, More: true})
	}
	n.say(nil, &answer{ID: q.ID})
}
