package agent

import (
	"context"
	"errors"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// readLink passes on what a rank says over IBRUN_FD.
func (a *agent) readLink(r *rank) {
	defer close(r.linkDone)
	for {
		m, err := r.link.Recv(context.Background())
		if err != nil && !errors.Is(err, ranklink.ErrMalformed) {
			return // the rank has gone
		}
		if err == nil {
			err = a.handleLinkMessage(r, m)
		}
		if err != nil {
			a.send(&protocol.Event{Kind: protocol.EventNote, Rank: r.task.Rank, Text: err.Error()})
		}
	}
}

func (a *agent) handleLinkMessage(r *rank, m ranklink.Message) error {
	switch m.Kind {
	case ranklink.KindStarted:
		r.linkReady.Store(true)
	case ranklink.KindNote:
		var note ranklink.Note
		if err := m.Decode(&note); err != nil {
			return err
		}
		a.send(&protocol.Event{Kind: protocol.EventNote, Rank: r.task.Rank, Text: note.Text})
	case ranklink.KindStacks:
		r.stacksRequested.Store(false)
		var s ranklink.Stacks
		if err := m.Decode(&s); err != nil {
			return err
		}
		if s.Cut {
			s.Text += "\n(and more goroutines)\n"
		}
		a.send(&protocol.Event{Kind: protocol.EventStacks, Rank: r.task.Rank, Text: s.Text})
	}
	return nil
}

// requestStacks asks ranks what their goroutines do, if they listen and have answered before: so nothing ever piles up before one
// that stands still. Whoever does not answer is missed by ibrun.
func (a *agent) requestStacks(ranks []int) {
	for _, rank := range ranks {
		i := a.task.LocalIndex(rank)
		if i < 0 || i >= len(a.ranks) {
			continue
		}
		if r := a.ranks[i]; r.linkReady.Load() && !r.stacksRequested.Swap(true) {
			_ = r.link.Send(ranklink.KindAskStacks, nil) // it may have died
		}
	}
}
