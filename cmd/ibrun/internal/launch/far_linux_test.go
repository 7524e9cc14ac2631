package launch

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
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
		if err := n.checkEvent(e); (err == nil) == (e.Kind == EventJoin) { // which comes only once
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, e := range []Event{{Kind: EventStarted, PIDs: []int{1}}, {Kind: EventStarted, Ranks: []int{2, 3, 4}, PIDs: []int{1, 2, 3}},
		{Kind: EventStarted, Ranks: []int{3}, PIDs: []int{1}}, {Kind: EventStarted, Ranks: []int{2, 1}, PIDs: []int{1, 2}},
		{Kind: EventExit, Rank: 1},
		{Kind: EventExit, Rank: 4}, {Kind: EventInit, Rank: -1}, {Kind: EventAbort}, {Kind: EventNotStarted, Rank: 9}, {Kind: EventParcel},
		{Kind: EventSignal, Signal: 9}, {Kind: EventSignal, Signal: int(HangViewSignal)}, {Kind: EventInspect}, {Kind: EventProgress},
		{Kind: EventNodeRecord}, {Kind: EventNodeRecord, NodeRecord: &report.Node{Ranks: []report.Place{{Rank: 1}}}},
		{Kind: EventPage, Rank: 1}, {Kind: "", Rank: 2}, {Kind: EventNote, Rank: 2},
		// With these a job that has failed would seem to be well.
		{Kind: EventFailure, Text: "why"}, {Kind: EventFailure, Code: 256}, {Kind: EventNotStarted, Rank: 2, Text: "why"},
		{Kind: EventExit, Rank: 2, Code: 256}, {Kind: EventExit, Rank: 2, Code: -1}, {Kind: EventExit, Rank: 2, Signal: 128},
		{Kind: EventExit, Rank: 2, Signal: -128}} {
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
	early, late := Event{Kind: EventExit, Rank: 1, Code: 3, Time: 100}, Event{Kind: EventExit, Rank: 0, Code: 4, Time: 200}
	killed, broken := Event{Kind: EventExit, Rank: 0, Signal: 9, Time: 200}, Event{Kind: EventExit, Rank: 0, Signal: 11, Time: 200}
	told := Event{Kind: EventExit, Rank: 1, Signal: 9, Time: 100, AfterEnd: true}
	for _, story := range []struct {
		events []Event
		want   string
	}{
		{[]Event{early, late}, "rank 1 on n1 ended with exit code 3"},
		{[]Event{late, early}, "rank 1 on n1 ended with exit code 3"},
		{[]Event{late, told}, "rank 0 on n0 ended with exit code 4"},
		{[]Event{early, killed}, "rank 0 on n0 was killed by signal 9 (SIGKILL)"},
		{[]Event{killed, early}, "rank 0 on n0 was killed by signal 9 (SIGKILL)"},
		{[]Event{early, broken}, "rank 1 on n1 ended with exit code 3"},
		{[]Event{broken, early}, "rank 1 on n1 ended with exit code 3"},
	} {
		c := &coordinator{
			cluster: &Cluster{}, opts: &cli.Options{}, task: &Task{Size: 2, Nodes: 2}, failures: newFailureTracker(2), lastOutput: map[int]string{},
			local: &localAgent{task: &Task{}, orders: json.NewEncoder(io.Discard), started: true,
				monitor: NewMonitor(&Task{}, nil, Streams{}, nil)},
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
