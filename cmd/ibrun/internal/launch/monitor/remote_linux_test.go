package monitor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/perf/jobs"
)

// connectedMonitors returns the monitors of a job on three nodes, which can query each other; the ranks are assigned
// round-robin. The last node never answers.
func connectedMonitors(t *testing.T, ranks int) []*Monitor {
	t.Helper()
	var nodes [3][]int // the ranks of each
	var hosts []string
	for rank := range ranks {
		nodes[rank%3] = append(nodes[rank%3], rank)
		hosts = append(hosts, fmt.Sprint("n", rank%3))
	}
	var all []*Monitor
	for node := range nodes {
		task := &protocol.Task{Node: node, Nodes: 3, Size: ranks}
		for _, rank := range nodes[node] {
			task.Ranks = append(task.Ranks, protocol.RankTask{Rank: rank})
		}
		m := New(task, nil, console.Streams{}, func(*protocol.Order) {})
		t.Cleanup(func() {
			m.stop()
			m.goroutines.Wait()
		})
		remotes := []*RemoteNode{{Number: 1, Ranks: nodes[1]}, {Number: 2, Ranks: nodes[2]}}
		if node > 0 {
			others := slices.DeleteFunc(slices.Collect(rangeOver(ranks)), func(rank int) bool { return rank%3 == node })
			remotes = []*RemoteNode{{Number: 0, Ranks: others}}
		}
		m.ConnectNodes(hosts, remotes)
		all = append(all, m)
	}
	for i, n := range all[0].remotes {
		far := all[i+1]
		n.Send = func(q *protocol.Question, a *protocol.Answer) {
			if i == 0 {
				far.HandleRemote(0, q, a)
			}
		}
		far.remotes[0].Send = func(q *protocol.Question, a *protocol.Answer) { all[0].HandleRemote(n.Number, q, a) }
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

// TestRemoteRanks: every node returns all ranks, in their order, even if that takes several messages. Ranks of a node that does
// not answer have the state Unheard.
func TestRemoteRanks(t *testing.T) {
	t.Parallel() // it waits for a node that does not answer
	const ranks = 9 * ranksPerMessage
	all := connectedMonitors(t, ranks)
	for node, m := range all[:2] {
		answeredInTime(t, all, func() error {
			got, err := m.Ranks(t.Context())
			if err != nil || len(got) != ranks {
				t.Fatalf("node %d: %d ranks, %v", node, len(got), err)
			}
			for i, r := range got {
				want := jobs.Starting
				if i%3 == 2 {
					want = jobs.Unreachable
				}
				if r.Rank == i && r.Host == fmt.Sprint("n", i%3) && r.State == want {
					continue
				}
				err := fmt.Errorf("node %d: rank %d is %+v", node, i, r)
				if r.State != jobs.Unreachable {
					t.Fatal(err)
				}
				return err
			}
			return nil
		})
		if len(m.openRequests) != 0 {
			t.Errorf("node %d: %d questions are still open", node, len(m.openRequests))
		}
	}
}

// answeredInTime runs a test in which the last node does not answer. If it returns an error, another node may have answered too
// late, and more time is given.
func answeredInTime(t *testing.T, all []*Monitor, test func() error) {
	t.Helper()
	for limit := remoteTimeout; ; limit *= 3 {
		for _, m := range all {
			m.goroutines.Wait() // those of the attempt before read the limit
			m.timeout = limit
		}
		err := test()
		if err == nil {
			return
		}
		if limit > 20*remoteTimeout {
			t.Fatal(err)
		}
	}
}

// TestRemoteStacks: the stacks of ranks on other nodes come from there. Ranks that do not answer are missing.
func TestRemoteStacks(t *testing.T) {
	t.Parallel()
	all := connectedMonitors(t, 6)
	agents := func(m *Monitor, text string) { // answers as the agent of a node does
		m.order = func(o *protocol.Order) {
			for _, rank := range o.Stacks {
				if rank < 3 {
					m.DeliverStacks(rank, text)
				}
			}
		}
	}
	agents(all[0], "here")
	agents(all[1], "there")
	for node, m := range all[:2] {
		answeredInTime(t, all, func() error {
			got, err := m.Stacks(t.Context(), []int{0, 1, 2, 4, 99})
			if err != nil || len(got) != 2 || got[0] != "here" || got[1] != "there" {
				return fmt.Errorf("node %d: %v, %v", node, got, err)
			}
			return nil
		})
	}
}

// A node that asks without end has no more questions answered at a time than the limit, and none about more ranks than there are.
func TestTooManyQuestions(t *testing.T) {
	all := connectedMonitors(t, 3)
	m, n := all[0], all[0].remotes[0]
	answers, release := make(chan uint64, 1000), make(chan struct{})
	n.Send = func(q *protocol.Question, a *protocol.Answer) {
		if a != nil && !a.More {
			<-release
			answers <- a.ID
		}
	}
	stacks := &protocol.Question{ID: 1, Stacks: []int{0, 0, 0, 0}, Timeout: time.Hour}
	m.HandleRemote(1, stacks, nil)
	for id := range uint64(maxQuestions + 100) {
		m.HandleRemote(1, &protocol.Question{ID: id + 2}, nil) // its time is over, so nothing waits for the silent node
	}
	close(release)
	m.goroutines.Wait()
	if len(answers) != maxQuestions {
		t.Errorf("%d questions were answered at a time, want %d", len(answers), maxQuestions)
	}
	for len(answers) > 0 {
		if <-answers == stacks.ID {
			t.Error("a question about more ranks than there are was answered")
		}
	}
	m.HandleRemote(1, &protocol.Question{ID: 9999}, nil)
	m.goroutines.Wait()
	if len(answers) != 1 {
		t.Error("no question is answered after the others have been")
	}
}

// Node 0 passes on the questions of all other nodes, and may do so at the same time.
func TestQuestionsOfManyNodes(t *testing.T) {
	const nodes = 2 * maxQuestions
	m := connectedMonitors(t, 3)[1]
	m.task.Nodes = nodes
	answers, release := make(chan uint64, nodes), make(chan struct{})
	m.remotes[0].Send = func(_ *protocol.Question, a *protocol.Answer) {
		if a != nil && !a.More {
			<-release
			answers <- a.ID
		}
	}
	for id := range uint64(nodes) {
		m.HandleRemote(0, &protocol.Question{ID: id + 1}, nil)
	}
	close(release)
	m.goroutines.Wait()
	if len(answers) != nodes {
		t.Errorf("%d of %d questions were answered", len(answers), nodes)
	}
}

// A client may name a rank more than once. Other nodes are asked for its stacks once.
func TestSameStacksTwice(t *testing.T) {
	all := connectedMonitors(t, 3)
	m, asked := all[0], 0
	all[1].order = func(o *protocol.Order) {
		asked += len(o.Stacks)
		all[1].DeliverStacks(1, "there")
	}
	got, err := m.Stacks(t.Context(), []int{1, 1, 1, 1, 1})
	if err != nil || len(got) != 1 || got[1] != "there" || asked != 1 {
		t.Errorf("%v, %v; %d requests", got, err, asked)
	}
}
