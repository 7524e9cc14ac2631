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
		if err := n.checkEvent(e); (err == nil) == (e.Kind == evJoin) { // which comes only once
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, e := range []event{{Kind: evStarted, PIDs: []int{1}}, {Kind: evStarted, Ranks: []int{2, 3, 4}, PIDs: []int{1, 2, 3}},
		{Kind: evStarted, Ranks: []int{3}, PIDs: []int{1}}, {Kind: evStarted, Ranks: []int{2, 1}, PIDs: []int{1, 2}},
		{Kind: evExit, Rank: 1},
		{Kind: evExit, Rank: 4}, {Kind: evInit, Rank: -1}, {Kind: evAbort}, {Kind: evNotStarted, Rank: 9}, {Kind: evParcel},
		{Kind: evSignal, Signal: 9}, {Kind: evSignal, Signal: int(hangViewSignal)}, {Kind: evInspect}, {Kind: evProgress},
		{Kind: evNodeRecord}, {Kind: evNodeRecord, NodeRecord: &report.Node{Ranks: []report.Place{{Rank: 1}}}},
		{Kind: evPage, Rank: 1}, {Kind: "", Rank: 2}, {Kind: evNote, Rank: 2},
		// With these a job that has failed would seem to be well.
		{Kind: evFailure, Text: "why"}, {Kind: evFailure, Code: 256}, {Kind: evNotStarted, Rank: 2, Text: "why"},
		{Kind: evExit, Rank: 2, Code: 256}, {Kind: evExit, Rank: 2, Code: -1}, {Kind: evExit, Rank: 2, Signal: 128},
		{Kind: evExit, Rank: 2, Signal: -128}} {
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
	early, late := event{Kind: evExit, Rank: 1, Code: 3, Time: 100}, event{Kind: evExit, Rank: 0, Code: 4, Time: 200}
	killed, broken := event{Kind: evExit, Rank: 0, Signal: 9, Time: 200}, event{Kind: evExit, Rank: 0, Signal: 11, Time: 200}
	told := event{Kind: evExit, Rank: 1, Signal: 9, Time: 100, AfterEnd: true}
	for _, story := range []struct {
		events []event
		want   string
	}{
		{[]event{early, late}, "rank 1 on n1 ended with exit code 3"},
		{[]event{late, early}, "rank 1 on n1 ended with exit code 3"},
		{[]event{late, told}, "rank 0 on n0 ended with exit code 4"},
		{[]event{early, killed}, "rank 0 on n0 was killed by signal 9 (SIGKILL)"},
		{[]event{killed, early}, "rank 0 on n0 was killed by signal 9 (SIGKILL)"},
		{[]event{early, broken}, "rank 1 on n1 ended with exit code 3"},
		{[]event{broken, early}, "rank 1 on n1 ended with exit code 3"},
	} {
		c := &coordinator{
			cluster: &cluster{}, opts: &cli.Options{}, task: &task{Size: 2, Nodes: 2}, failures: newFailureTracker(2), lastOutput: map[int]string{},
			local: &localAgent{task: &task{}, orders: json.NewEncoder(io.Discard), started: true},
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
