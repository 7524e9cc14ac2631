package monitor

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// Stacks returns the goroutine stacks of those of the ranks that answer before ctx ends.
func (m *Monitor) Stacks(ctx context.Context, ranks []int) (map[int]string, error) {
	return m.allStacks(ctx, ranks, nil), nil
}

// localStacks returns the stacks of those ranks of this node that answer before ctx ends.
func (m *Monitor) localStacks(ctx context.Context, ranks []int) map[int]string {
	answers := make([]chan string, len(ranks))
	m.mu.Lock()
	for i, rank := range ranks {
		answers[i] = make(chan string, 1)
		m.stackWaiters[rank] = append(m.stackWaiters[rank], answers[i])
	}
	m.mu.Unlock()
	m.order(&protocol.Order{Stacks: ranks})
	texts := map[int]string{}
	for i, rank := range ranks {
		select {
		case texts[rank] = <-answers[i]:
		case <-ctx.Done():
		case <-m.ctx.Done():
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, rank := range ranks {
		m.stackWaiters[rank] = slices.DeleteFunc(m.stackWaiters[rank], func(c chan string) bool { return c == answers[i] })
		if len(m.stackWaiters[rank]) == 0 {
			delete(m.stackWaiters, rank)
		}
		if texts[rank] == "" {
			delete(texts, rank)
		}
	}
	return texts
}

// DeliverStacks passes the stacks of a rank to all goroutines that wait for them.
func (m *Monitor) DeliverStacks(rank int, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.stackWaiters[rank] {
		c <- text
	}
	delete(m.stackWaiters, rank)
}

// allStacks returns the stacks of ranks on this node and on all remote nodes but one, the node that asks. It contains the ranks
// that answer before ctx ends and within remoteTimeout. Each rank is asked once.
func (m *Monitor) allStacks(ctx context.Context, ranks []int, but *RemoteNode) map[int]string {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	ranks = slices.Compact(slices.Sorted(slices.Values(ranks)))
	var mine []int
	for _, rank := range ranks {
		if m.task.LocalIndex(rank) >= 0 {
			mine = append(mine, rank)
		}
	}
	var texts map[int]string
	var own sync.WaitGroup
	own.Go(func() { texts = m.localStacks(ctx, mine) })
	answers := m.queryRemotes(ctx, but, func(n *RemoteNode) *protocol.Question {
		var theirs []int
		for _, rank := range ranks {
			if _, found := slices.BinarySearch(n.Ranks, rank); found {
				theirs = append(theirs, rank)
			}
		}
		if theirs == nil {
			return nil
		}
		return &protocol.Question{Stacks: theirs}
	})
	own.Wait()
	for _, a := range answers {
		maps.Copy(texts, a.stacks)
	}
	return texts
}
