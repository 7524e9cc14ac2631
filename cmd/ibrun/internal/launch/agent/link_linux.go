package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// How many notes of a rank are shown, and how many of its invalid messages, and of its requests that cannot be answered, are
// reported. Further ones are counted.
const (
	maxNotes   = 1000
	maxInvalid = 8
)

// errUnasked means that a rank has sent an answer to a question that nobody has asked.
var errUnasked = fmt.Errorf("%w: stacks that were not requested", ranklink.ErrMalformed)

// causeOfInvalid is why a rank sends invalid messages.
const causeOfInvalid = "the program, or a library in it, writes to the descriptor IBRUN_FD, which belongs to ibrun"

// readLink forwards the messages that a rank sends over IBRUN_FD. A request that cannot be answered is not a fault of the rank.
func (a *agent) readLink(r *rank) {
	defer close(r.linkDone)
	invalid, unanswered := 0, 0
	note := func(count *int, text string) {
		if *count++; *count <= maxInvalid {
			a.sendFromRank(&protocol.Event{Kind: protocol.EventNote, Rank: r.task.Rank, Text: text})
		}
	}
	for {
		m, err := r.link.Recv(context.Background())
		if err != nil && !errors.Is(err, ranklink.ErrMalformed) {
			break // the rank has closed the connection
		}
		if err == nil {
			err = a.handleLinkMessage(r, m)
		}
		switch {
		case err == nil:
		case errors.Is(err, ranklink.ErrMalformed):
			note(&invalid, causeOfInvalid+" ("+err.Error()+")")
		default:
			note(&unanswered, "its request was not answered: "+err.Error())
		}
	}
	a.noteUnshown(r, invalid-maxInvalid, "invalid messages on IBRUN_FD")
	a.noteUnshown(r, unanswered-maxInvalid, "requests that were not answered")
	a.noteUnshown(r, r.notes-maxNotes, "notes")
}

// noteUnshown reports how many more messages of a kind a rank has sent than were shown.
func (a *agent) noteUnshown(r *rank, count int, what string) {
	if count > 0 {
		a.sendFromRank(&protocol.Event{Kind: protocol.EventNote, Rank: r.task.Rank, Text: fmt.Sprintf("it has sent %d more %s, which "+
			"are not shown", count, what)})
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
		if a.mayShow(r, note) {
			a.sendFromRank(&protocol.Event{Kind: protocol.EventNote, Rank: r.task.Rank, Text: note.Text, Info: note.Info})
		}
	case ranklink.KindStacks:
		if !r.stacksRequested.CompareAndSwap(true, false) {
			return errUnasked
		}
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

// mayShow reports whether a note is to be shown: no rank of this node has sent one about the same before, and this rank not too
// many. What is stored is bounded by the number of notes that are shown.
func (a *agent) mayShow(r *rank, note ranklink.Note) bool {
	about := sha256.Sum256([]byte(note.Once))
	a.mu.Lock()
	defer a.mu.Unlock()
	if note.Once != "" && a.noted[about] {
		return false
	}
	if r.notes++; r.notes > maxNotes {
		return false
	}
	if a.noted == nil {
		a.noted = map[[sha256.Size]byte]bool{}
	}
	if note.Once != "" {
		a.noted[about] = true
	}
	return true
}

// requestStacks requests the goroutine stacks of ranks. It does not wait for a rank: it skips those that do not read their link,
// or have not answered the previous request. ibrun stops waiting for missing answers by itself.
func (a *agent) requestStacks(ranks []int) {
	for _, rank := range ranks {
		i := a.task.LocalIndex(rank)
		if i < 0 || i >= len(a.ranks) {
			continue
		}
		if r := a.ranks[i]; r.linkReady.Load() && !r.stacksRequested.Swap(true) {
			if sent, _ := r.link.TrySend(ranklink.KindRequestStacks, nil); !sent { // an error: the rank has exited
				r.stacksRequested.Store(false)
			}
		}
	}
}
