package launch

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
)

// lookers are those of a job on three nodes, whose ranks are dealt out in turn, as they ask each other; the last node never says
// anything.
func lookers(t *testing.T, ranks int) []*monitor {
	t.Helper()
	var at []int
	for rank := range ranks {
		at = append(at, rank%3)
	}
	where := newLayout(at, 3)
	var all []*monitor
	for node := range 3 {
		task := &task{Node: node, Nodes: 3, Size: ranks}
		for _, rank := range where.ranksOn[node] {
			task.Ranks = append(task.Ranks, rankTask{Rank: rank})
		}
		l := &localAgent{task: task, orders: json.NewEncoder(io.Discard), started: true, exited: make([]atomic.Bool, len(task.Ranks))}
		k := newMonitor(l)
		t.Cleanup(func() {
			k.stop()
			k.goroutines.Wait()
		})
		m := &cluster{welcome: welcome{Names: []string{"n0", "n1", "n2"}}, workers: make([]*joinedNode, 3)}
		for i := range m.workers {
			m.workers[i] = &joinedNode{}
		}
		k.connectNodes(m, where) // as if it were node 0
		if node > 0 {
			others := slices.DeleteFunc(slices.Collect(rangeOver(ranks)), func(rank int) bool { return at[rank] == node })
			k.remotes = []*remoteNode{{number: 0, ranks: others}}
		}
		all = append(all, k)
	}
	for i, n := range all[0].remotes {
		far := all[i+1]
		n.send = func(q *question, a *answer) {
			if i == 0 {
				far.handleRemote(0, q, a)
			}
		}
		far.remotes[0].send = func(q *question, a *answer) { all[0].handleRemote(n.number, q, a) }
	}
	return all
}

func rangeOver(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// TestNeighbors: whichever node is asked tells of all ranks, in their order, also if that takes several messages; those of a node
// that says nothing are there, and said to be not heard of.
func TestNeighbors(t *testing.T) {
	t.Parallel() // it waits for who does not answer
	const ranks = 9 * ranksPerMessage
	all := lookers(t, ranks)
	for node, k := range all[:2] {
		got, err := k.Ranks(t.Context())
		if err != nil || len(got) != ranks {
			t.Fatalf("node %d: %d ranks, %v", node, len(got), err)
		}
		for i, r := range got {
			want := inspect.Starting
			if i%3 == 2 {
				want = inspect.Unheard
			}
			if r.Rank != i || r.Host != fmt.Sprint("n", i%3) || r.State != want {
				t.Fatalf("node %d: rank %d is %+v", node, i, r)
			}
		}
		if len(k.openRequests) != 0 {
			t.Errorf("node %d: %d questions are left", node, len(k.openRequests))
		}
	}
}

// TestNeighborStacks: of ranks that are elsewhere the stacks come from there; who does not answer is missing.
func TestNeighborStacks(t *testing.T) {
	t.Parallel()
	all := lookers(t, 6)
	agents := func(k *monitor, text string) { // answers as the agent of a node does
		k.l.orders = json.NewEncoder(writerFunc(func(b []byte) {
			var o order
			if err := json.Unmarshal(b, &o); err != nil {
				t.Error(err)
			}
			for _, rank := range o.Stacks {
				if rank < 3 {
					k.deliverStacks(&event{Kind: evStacks, Rank: rank, Text: text})
				}
			}
		}))
	}
	agents(all[0], "here")
	agents(all[1], "there")
	for node, k := range all[:2] {
		got, err := k.Stacks(t.Context(), []int{0, 1, 2, 4, 99})
		if err != nil || len(got) != 2 || got[0] != "here" || got[1] != "there" {
			t.Errorf("node %d: %v, %v", node, got, err)
		}
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}
