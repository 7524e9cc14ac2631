package coordinator

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/internal/pmi"
)

func testMessages(t testing.TB) (events, orders [][]byte) {
	pack := func(v any) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, e := range []protocol.Event{{Kind: protocol.EventStarted, Ranks: []int{2, 3}, PIDs: []int{7, 8}},
		{Kind: protocol.EventExit, Rank: 3, Code: 5},
		{Kind: protocol.EventExit, Rank: 3, Signal: 9}, {Kind: protocol.EventInit, Rank: 3}, {Kind: protocol.EventFinalize,
			Rank: 2},
		{Kind: protocol.EventAbort, Rank: 3, Code: 7, Text: "why"}, {Kind: protocol.EventSignal, Signal: 2, Again: true},
		{Kind: protocol.EventInvalidPMI, Rank: 3, Text: "why"},
		{Kind: protocol.EventNotStarted, Rank: -1, Code: 1, Text: "why"},
		{Kind: protocol.EventFailure, Code: 1, Text: "why"}, {Kind: protocol.EventDone, Rank: -1}, {Kind: protocol.EventJoin,
			Join: &protocol.Join{Name: "n"}},
		{Kind: protocol.EventExchange, Exchange: &pmi.ExchangeMessage{Group: "WORLD:0"}}, {Kind: protocol.EventPage, Rank: 2,
			Page: []byte("page")},
		{Kind: protocol.EventOutput, Stream: 2, Data: []byte("a line\n")},
		{Kind: protocol.EventProgress, Progress: &protocol.Progress{Done: 1, Total: 2}},
		{Kind: protocol.EventInspect, Question: &protocol.Question{ID: 1, Stacks: []int{2}}}, {Kind: protocol.EventInspect,
			Answer: &protocol.Answer{ID: 2, More: true}},
		{Kind: protocol.EventNodeRecord, NodeRecord: &report.Node{Name: "n", Ranks: []report.Place{{Rank: 2}, {Rank: 3}}}}} {
		events = append(events, pack(e))
	}
	for _, o := range []protocol.Order{{Signal: 2}, {End: &protocol.EndOrder{Grace: 50, LastOutputOf: 1}},
		{Exchange: &pmi.ExchangeMessage{}}, {Question: &protocol.Question{ID: 3}},
		{Answer: &protocol.Answer{ID: 4, Stacks: map[int]string{2: "goroutine 1"}}}, {JobInfo: &protocol.JobInfo{JobID: "j"}},
		{JobInfo: &protocol.JobInfo{Forwarding: &protocol.Forwarding{Terminals: [2]bool{true, false}}}},
		{OutputAck: &protocol.OutputAck{Stream: 1, Bytes: 9, Closed: true}}, {Input: &protocol.Input{Data: []byte("typed\n")}},
		{Input: &protocol.Input{End: true}},
		{Outcome: &protocol.Outcome{Code: 3, Messages: []message.Message{{Level: slog.LevelWarn, Msg: "why",
			Attrs: message.Attrs{Rank: new(0), Signal: 9, Text: "because"}}}, Repeated: &protocol.Repeated{Message: 0, Node: 1}}}} {
		orders = append(orders, pack(o))
	}
	return events, orders
}

func TestMessagePrefixes(t *testing.T) {
	events, orders := testMessages(t)
	for _, text := range events {
		if e, err := decodeEvent(text); err != nil || e.Kind == "" {
			t.Errorf("%s: %v", text, err)
		}
		for i := range text {
			if _, err := decodeEvent(text[:i]); err == nil {
				t.Errorf("%s was decoded", text[:i])
			}
		}
	}
	for _, text := range orders {
		if _, err := decodeOrder(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for i := range text {
			if _, err := decodeOrder(text[:i]); err == nil {
				t.Errorf("%s was decoded", text[:i])
			}
		}
	}
}
