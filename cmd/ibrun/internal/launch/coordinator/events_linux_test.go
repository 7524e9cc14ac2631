package coordinator

import (
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/outbox"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/watcher"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
)

// testNode returns a node with the last two of four ranks.
func testNode() (*node, *failureTracker) {
	queues := [2]*chunkQueue{newChunkQueue(1, nil), newChunkQueue(2, nil)}
	merged := &mergedOutput{queues: [][2]*chunkQueue{{}, queues}}
	return &node{number: 1, ranks: []int{2, 3}, output: merged}, newFailureTracker(4)
}

// Events about ranks of other nodes, and events that no ibrun sends, are refused.
func TestForeignEvents(t *testing.T) {
	n, _ := testNode()
	events, _ := testMessages(t)
	for _, text := range events {
		e, err := decodeEvent(text)
		if err != nil {
			t.Fatal(err)
		}
		// EventJoin is valid only before the job starts
		if err := n.checkEvent(e); (err == nil) == (e.Kind == protocol.EventJoin) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, e := range []protocol.Event{{Kind: protocol.EventStarted, PIDs: []int{1}}, {Kind: protocol.EventStarted,
		Ranks: []int{2, 3, 4}, PIDs: []int{1, 2, 3}},
		{Kind: protocol.EventStarted, Ranks: []int{3}, PIDs: []int{1}}, {Kind: protocol.EventStarted, Ranks: []int{2, 1},
			PIDs: []int{1, 2}},
		{Kind: protocol.EventExit, Rank: 1},
		{Kind: protocol.EventExit, Rank: 4}, {Kind: protocol.EventInit, Rank: -1}, {Kind: protocol.EventAbort},
		{Kind: protocol.EventNotStarted, Rank: 9}, {Kind: protocol.EventExchange},
		{Kind: protocol.EventSignal, Signal: 9}, {Kind: protocol.EventSignal, Signal: int(console.HangViewSignal)},
		{Kind: protocol.EventInspect}, {Kind: protocol.EventProgress},
		{Kind: protocol.EventInputTaken, InputTaken: &protocol.InputTaken{Bytes: 1}}, {Kind: protocol.EventOutput},
		{Kind: protocol.EventOutput, Stream: 3, Data: []byte("x")},
		{Kind: protocol.EventNodeRecord}, {Kind: protocol.EventNodeRecord,
			NodeRecord: &report.Node{Ranks: []report.Place{{Rank: 1}}}},
		{Kind: protocol.EventPage, Rank: 1}, {Kind: "", Rank: 2}, {Kind: protocol.EventNote, Rank: 2},
		// With these, a job that has failed would seem successful.
		{Kind: protocol.EventFailure, Text: "why"}, {Kind: protocol.EventFailure, Code: 256}, {Kind: protocol.EventNotStarted,
			Rank: 2, Text: "why"},
		{Kind: protocol.EventExit, Rank: 2, Code: 256}, {Kind: protocol.EventExit, Rank: 2, Code: -1}, {Kind: protocol.EventExit,
			Rank: 2, Signal: 128},
		{Kind: protocol.EventExit, Rank: 2, Signal: -128}} {
		if n.checkEvent(&e) == nil {
			t.Errorf("%+v was accepted", e)
		}
	}
}

// No event of another node makes node 0 panic.
func FuzzEvents(f *testing.F) {
	events, orders := testMessages(f)
	for _, text := range append(events, orders...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = decodeOrder(text) // no order may cause a panic
		e, err := decodeEvent(text)
		if err != nil {
			return
		}
		n, j := testNode()
		if n.checkEvent(e) != nil {
			return
		}
		for range 2 {
			if f := j.handleEvent(e); f != nil && (f.rank < -1 || f.rank >= 4 || f.code < 1 || f.code > 255) {
				t.Errorf("%s: a failure of rank %d with code %d", text, f.rank, f.code)
			}
		}
	})
}

// The rank that failed first is named, even if the exit of a rank on another node, which reacted to it, was received earlier. A
// rank that exited after its agent was ordered to end it is not named, whatever the clocks show. A rank that was killed
// precedes one that exited by itself, and that precedes one that had noticed the failure of another process.
func TestFirstInTimeOnNodes(t *testing.T) {
	early, late := protocol.Event{Kind: protocol.EventExit, Rank: 1, Code: 3, Time: 100},
		protocol.Event{Kind: protocol.EventExit, Rank: 0, Code: 4, Time: 200}
	killed, broken := protocol.Event{Kind: protocol.EventExit, Rank: 0, Signal: 9, Time: 200},
		protocol.Event{Kind: protocol.EventExit, Rank: 0, Signal: 11, Time: 200}
	reacted := protocol.Event{Kind: protocol.EventExit, Rank: 1, Code: 3, Time: 100, LostPeer: true}
	ended := protocol.Event{Kind: protocol.EventExit, Rank: 1, Signal: 9, Time: 100, AfterEnd: true}
	for _, test := range []struct {
		events []protocol.Event
		want   string
	}{
		{[]protocol.Event{early, late}, "rank 1 on n1 ended with exit code 3"},
		{[]protocol.Event{late, early}, "rank 1 on n1 ended with exit code 3"},
		{[]protocol.Event{late, ended}, "rank 0 on n0 ended with exit code 4"},
		{[]protocol.Event{early, killed}, "rank 0 on n0 was killed by signal 9 (SIGKILL)"},
		{[]protocol.Event{killed, early}, "rank 0 on n0 was killed by signal 9 (SIGKILL)"},
		{[]protocol.Event{early, broken}, "rank 1 on n1 ended with exit code 3"},
		{[]protocol.Event{broken, early}, "rank 1 on n1 ended with exit code 3"},
		{[]protocol.Event{reacted, late}, "rank 0 on n0 ended with exit code 4"},
		{[]protocol.Event{late, reacted}, "rank 0 on n0 ended with exit code 4"},
		{[]protocol.Event{reacted, broken}, "rank 0 on n0 was killed by signal 11"},
		{[]protocol.Event{reacted, ended}, "rank 1 on n1 ended with exit code 3"},
	} {
		c := &coordinator{
			cluster: &Cluster{}, opts: &cli.Options{}, task: &protocol.Task{Size: 2, Nodes: 2}, failures: newFailureTracker(2),
			left:       newLeftRanks(2),
			lastOutput: map[int]string{},
			local: &localAgent{task: &protocol.Task{}, command: &watcher.Running{PIDFD: -1},
				orders: outbox.New(func([]byte) error { return nil }), started: true,
				monitor: monitor.New(&protocol.Task{}, nil, console.Streams{}, nil)},
			nodes: []*node{{name: "n0", ranks: []int{0}}, {name: "n1", number: 1, ranks: []int{1}, conn: new(control.Conn)}},
		}
		for i := range test.events {
			c.handleEvent(c.nodes[test.events[i].Rank], &test.events[i])
		}
		if v := c.outcome(); !strings.HasPrefix(strings.Join(v.Lines, "\n"), test.want) {
			t.Errorf("%+v, want %s", v, test.want)
		}
	}
}
