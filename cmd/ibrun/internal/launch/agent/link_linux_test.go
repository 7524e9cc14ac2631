package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// linkTest is an agent with one rank, whose end of the link the test holds.
type linkTest struct {
	*agent
	t      *testing.T
	r      *rank
	link   *ranklink.Link
	events strings.Builder
}

func newLinkTest(t *testing.T) *linkTest {
	l := &linkTest{t: t}
	l.r, l.link = linkedRank(t, 0)
	l.r.linkDone = make(chan struct{})
	l.r.linkReady.Store(true)
	l.agent = &agent{task: &protocol.Task{Ranks: []protocol.RankTask{{Rank: 0}}}, ranks: []*rank{l.r}, events: newEvents(&l.events)}
	t.Cleanup(func() {
		l.r.link.Close()
		l.link.Close()
	})
	return l
}

// send sends a message of the rank.
func (l *linkTest) send(kind ranklink.Kind, body any) {
	l.t.Helper()
	if err := l.link.Send(kind, body); err != nil {
		l.t.Fatal(err)
	}
}

// sent returns the events that the agent has sent after the rank has closed its end.
func (l *linkTest) sent() (all []protocol.Event) {
	l.t.Helper()
	l.link.Close()
	<-l.r.linkDone
	l.agent.events.Flush(0)
	for line := range strings.Lines(l.events.String()) {
		var e protocol.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			l.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// Stacks are passed on once for each request. Others are refused.
func TestUnaskedStacks(t *testing.T) {
	l := newLinkTest(t)
	go l.readLink(l.r)
	l.requestStacks([]int{0})
	if m, err := l.link.Recv(t.Context()); err != nil || m.Kind != ranklink.KindRequestStacks {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, text := range []string{"asked", "unasked", "unasked"} {
		l.send(ranklink.KindStacks, ranklink.Stacks{Text: text})
	}
	events := l.sent()
	if len(events) != 3 || events[0].Kind != protocol.EventStacks || events[0].Text != "asked" {
		t.Fatalf("%+v", events)
	}
	for _, e := range events[1:] {
		if e.Kind != protocol.EventNote || !strings.Contains(e.Text, "belongs to ibrun (") ||
			!strings.Contains(e.Text, "not requested") {
			t.Errorf("%+v", e)
		}
	}
}

// A request for stacks does not wait for a rank that never reads its link, also if it answers each request, and others of its
// messages wait for it.
func TestRankDoesNotRead(t *testing.T) {
	l := newLinkTest(t)
	requests := 0
	for l.requestStacks([]int{0}); l.r.stacksRequested.Load(); l.requestStacks([]int{0}) {
		requests++
		l.send(ranklink.KindStacks, ranklink.Stacks{})
		m, err := l.r.link.Recv(t.Context())
		if err == nil {
			err = l.handleLinkMessage(l.r, m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if requests == 0 {
		t.Error("the first request was not sent")
	}
	waits := make(chan error)
	go func() { waits <- l.r.link.Send(ranklink.KindLeft, ranklink.Left{Ranks: []int{1}}) }()
	l.requestStacks([]int{0})
	for range requests {
		if m, err := l.link.Recv(t.Context()); err != nil || m.Kind != ranklink.KindRequestStacks {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}
	if l.requestStacks([]int{0}); !l.r.stacksRequested.Load() {
		t.Error("no request is sent to a rank that reads again")
	}
}

// What a rank sends that is invalid, and its notes, are shown up to a limit, and counted beyond it. What is stored is bounded.
func TestManyNotes(t *testing.T) {
	l := newLinkTest(t)
	go l.readLink(l.r)
	const more = 100
	for range maxInvalid + more {
		l.send(ranklink.KindStacks, "no stacks")
	}
	for i := range maxNotes + more {
		l.send(ranklink.KindNote, ranklink.Note{Text: "why", Once: fmt.Sprint(i)})
	}
	l.send(ranklink.KindNote, ranklink.Note{Text: "said before", Once: "0"})
	events := l.sent()
	if len(events) != maxInvalid+maxNotes+2 {
		t.Fatalf("%d events", len(events))
	}
	for i, want := range []string{"it has sent 100 more invalid messages on IBRUN_FD, which are not shown",
		"it has sent 100 more notes, which are not shown"} {
		if e := events[len(events)-2+i]; e.Kind != protocol.EventNote || e.Text != want {
			t.Errorf("%+v, want %s", e, want)
		}
	}
	if len(l.noted) > maxNotes {
		t.Errorf("%d notes are remembered", len(l.noted))
	}
}
