package coordinator

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
)

// farNode is a node of four ranks, the last two of which are its own.
func farNode() (*node, *failureTracker) {
	return &node{number: 1, ranks: []int{2, 3}}, newFailureTracker(4)
}

// What another node says of ranks that are not its own, or says although no ibrun does, is refused.
func TestForeignEvents(t *testing.T) {
	n, _ := farNode()
	events, _ := testMessages(t)
	for _, text := range events {
		e, err := decodeEvent(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.checkEvent(e); (err == nil) == (e.Kind == protocol.EventJoin) { // which comes only once
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, e := range []protocol.Event{{Kind: protocol.EventStarted, PIDs: []int{1}}, {Kind: protocol.EventStarted,
		Ranks: []int{2, 3, 4}, PIDs: []int{1, 2, 3}},
		{Kind: protocol.EventStarted, Ranks: []int{3}, PIDs: []int{1}}, {Kind: protocol.EventStarted, Ranks: []int{2, 1},
			PIDs: []int{1, 2}},
		{Kind: protocol.EventExit, Rank: 1},
		{Kind: protocol.EventExit, Rank: 4}, {Kind: protocol.EventInit, Rank: -1}, {Kind: protocol.EventAbort},
		{Kind: protocol.EventNotStarted, Rank: 9}, {Kind: protocol.EventParcel},
		{Kind: protocol.EventSignal, Signal: 9}, {Kind: protocol.EventSignal, Signal: int(console.HangViewSignal)},
		{Kind: protocol.EventInspect}, {Kind: protocol.EventProgress},
		{Kind: protocol.EventNodeRecord}, {Kind: protocol.EventNodeRecord,
			NodeRecord: &report.Node{Ranks: []report.Place{{Rank: 1}}}},
		{Kind: protocol.EventPage, Rank: 1}, {Kind: "", Rank: 2}, {Kind: protocol.EventNote, Rank: 2},
		// With these a job that has failed would seem to be well.
		{Kind: protocol.EventFailure, Text: "why"}, {Kind: protocol.EventFailure, Code: 256}, {Kind: protocol.EventNotStarted,
			Rank: 2, Text: "why"},
		{Kind: protocol.EventExit, Rank: 2, Code: 256}, {Kind: protocol.EventExit, Rank: 2, Code: -1}, {Kind: protocol.EventExit,
			Rank: 2, Signal: 128},
		{Kind: protocol.EventExit, Rank: 2, Signal: -128}} {
		if n.checkEvent(&e) == nil {
			t.Errorf("%+v was taken", e)
		}
	}
}

// No event of another node crashes node 0.
func FuzzEvents(f *testing.F) {
	events, orders := testMessages(f)
	for _, text := range append(events, orders...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = decodeOrder(text) // any order is a value
		e, err := decodeEvent(text)
		if err != nil {
			return
		}
		n, j := farNode()
		if n.checkEvent(e) != nil {
			return
		}
		for range 2 {
			if f := j.handleEvent(e); f != nil && (f.rank < -1 || f.rank >= 4 || f.code < 1 || f.code > 255) {
				t.Errorf("%s: a fault of rank %d with code %d", text, f.rank, f.code)
			}
		}
	})
}

// The rank that failed first is named, also when one on another node failed as soon as it noticed and was heard of before. One
// that died since its agent told it to end is not, whatever the clocks say; and one that was killed is before one that gave up.
func TestFirstInTimeOnNodes(t *testing.T) {
	early, late := protocol.Event{Kind: protocol.EventExit, Rank: 1, Code: 3, Time: 100},
		protocol.Event{Kind: protocol.EventExit, Rank: 0, Code: 4, Time: 200}
	killed, broken := protocol.Event{Kind: protocol.EventExit, Rank: 0, Signal: 9, Time: 200},
		protocol.Event{Kind: protocol.EventExit, Rank: 0, Signal: 11, Time: 200}
	told := protocol.Event{Kind: protocol.EventExit, Rank: 1, Signal: 9, Time: 100, AfterEnd: true}
	for _, story := range []struct {
		events []protocol.Event
		want   string
	}{
		{[]protocol.Event{early, late}, "rank 1 on n1 ended with exit code 3"},
		{[]protocol.Event{late, early}, "rank 1 on n1 ended with exit code 3"},
		{[]protocol.Event{late, told}, "rank 0 on n0 ended with exit code 4"},
		{[]protocol.Event{early, killed}, "rank 0 on n0 was killed by signal 9 (SIGKILL)"},
		{[]protocol.Event{killed, early}, "rank 0 on n0 was killed by signal 9 (SIGKILL)"},
		{[]protocol.Event{early, broken}, "rank 1 on n1 ended with exit code 3"},
		{[]protocol.Event{broken, early}, "rank 1 on n1 ended with exit code 3"},
	} {
		c := &coordinator{
			cluster: &Cluster{}, opts: &cli.Options{}, task: &protocol.Task{Size: 2, Nodes: 2}, failures: newFailureTracker(2),
			lastOutput: map[int]string{},
			local: &localAgent{task: &protocol.Task{}, orders: json.NewEncoder(io.Discard), started: true,
				monitor: monitor.New(&protocol.Task{}, nil, console.Streams{}, nil)},
			nodes: []*node{{name: "n0", ranks: []int{0}}, {name: "n1", number: 1, ranks: []int{1}}},
		}
		for i := range story.events {
			c.handleEvent(c.nodes[story.events[i].Rank], &story.events[i])
		}
		if v := c.outcome(); !strings.HasPrefix(strings.Join(v.Lines, "\n"), story.want) {
			t.Errorf("%+v, want %s", v, story.want)
		}
	}
}
