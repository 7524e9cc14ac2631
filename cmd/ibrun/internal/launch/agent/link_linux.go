package agent

import (
	"context"
	"errors"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// readLink forwards the messages that a rank sends over IBRUN_FD.
func (a *agent) readLink(r *rank) {
	defer close(r.linkDone)
	for {
		m, err := r.link.Recv(context.Background())
		if err != nil && !errors.Is(err, ranklink.ErrMalformed) {
			return // the rank has closed the connection
		}
		if err == nil {
			err = a.handleLinkMessage(r, m)
		}
		if err != nil {
			a.sendFromRank(&protocol.Event{Kind: protocol.EventNote, Rank: r.task.Rank, Text: err.Error()})
		}
	}
}

func (a *agent) handleLinkMessage(r *rank, m ranklink.Message) error {
	defer m.Discard() // a rank sends no descriptors
	switch m.Kind {
	case ranklink.KindSocketRequest, ranklink.KindWakeRequest:
		return a.handleSocketRequest(r, m)
	case ranklink.KindStarted:
		if !r.linkReady.Swap(true) {
			go a.announceLeft(r)
		}
	case ranklink.KindNote:
		var note ranklink.Note
		if err := m.Decode(&note); err != nil {
			return err
		}
		if a.isFirst(note) {
			a.sendFromRank(&protocol.Event{Kind: protocol.EventNote, Rank: r.task.Rank, Text: note.Text, Info: note.Info})
		}
	case ranklink.KindStacks:
		r.stacksRequested.Store(false)
		var s ranklink.Stacks
		if err := m.Decode(&s); err != nil {
			return err
		}
		if s.Truncated {
			s.Text += "\n(and more goroutines)\n"
		}
		a.sendFromRank(&protocol.Event{Kind: protocol.EventStacks, Rank: r.task.Rank, Text: s.Text})
	}
	return nil
}

// isFirst reports whether no rank of this node has sent a note about the same before.
func (a *agent) isFirst(note ranklink.Note) bool {
	if note.Once == "" {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.noted[note.Once] {
		return false
	}
	if a.noted == nil {
		a.noted = map[string]bool{}
	}
	a.noted[note.Once] = true
	return true
}

// requestStacks requests the goroutine stacks of ranks. It skips ranks that do not read their link or have not answered the
// previous request, so requests do not accumulate for a rank that is stopped. ibrun stops waiting for missing answers by
// itself.
func (a *agent) requestStacks(ranks []int) {
	for _, rank := range ranks {
		i := a.task.LocalIndex(rank)
		if i < 0 || i >= len(a.ranks) {
			continue
		}
		if r := a.ranks[i]; r.linkReady.Load() && !r.stacksRequested.Swap(true) {
			_ = r.link.Send(ranklink.KindRequestStacks, nil) // the rank may have exited
		}
	}
}
