package coordinator

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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
	return &node{number: 1, ranks: []int{2, 3}, output: merged, ending: true}, newFailureTracker(4)
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

// testCoordinator returns a coordinator of two nodes with one rank each.
func testCoordinator() *coordinator {
	return &coordinator{
		cluster: &Cluster{}, settings: &RunSettings{}, task: &protocol.Task{Size: 2, Nodes: 2}, failures: newFailureTracker(2),
		left:       newLeftRanks(2),
		lastOutput: map[int]lastOutput{}, lostOutput: map[int]string{},
		local: &localAgent{task: &protocol.Task{}, command: &watcher.Running{PIDFD: -1},
			orders: outbox.New(func([]byte) error { return nil }), started: true,
			monitor: monitor.New(&protocol.Task{}, nil, console.Streams{}, nil)},
		nodes: []*node{{name: "n0", ranks: []int{0}}, {name: "n1", number: 1, ranks: []int{1}, conn: new(control.Conn)}},
	}
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
		c := testCoordinator()
		for i := range test.events {
			c.handleEvent(c.nodes[test.events[i].Rank], &test.events[i])
		}
		if v := c.outcome(); !strings.HasPrefix(strings.Join(v.Lines(), "\n"), test.want) {
			t.Errorf("%+v, want %s", v, test.want)
		}
	}
}

// The reason why the output of a node is lost is named, with its exit code, even if events that it has caused are handled before
// node 0 has looked at its own failures, or if there are none, or if nothing reads the other stream.
func TestOutputLostOnNodeZero(t *testing.T) {
	const lost = "output of rank 1 on n1 was lost: no space left on device"
	const after = "(SIGPIPE), after its output was lost: no space left on device"
	full := []lostOutput{{1, 1, unix.ENOSPC}}
	closed := protocol.Event{Kind: protocol.EventOutputLost, Rank: 1, Code: 141}
	space := protocol.Event{Kind: protocol.EventOutputLost, Rank: 1, Code: 1, Text: unix.ENOSPC.Error()}
	killed := protocol.Event{Kind: protocol.EventExit, Rank: 1, Signal: 13}
	for name, c := range map[string]struct {
		lost   []lostOutput
		events []protocol.Event
		want   string
		code   int
	}{
		"before its consequence":     {full, []protocol.Event{closed, killed}, after, 1},
		"nothing else":               {full, nil, lost, 1},
		"and a signal, on the node":  {nil, []protocol.Event{space, closed, killed}, after, 1},
		"both streams":               {[]lostOutput{{1, 1, unix.ENOSPC}, {1, 2, unix.EPIPE}}, nil, lost, 1},
		"both, on the node":          {nil, []protocol.Event{space, closed}, lost, 1},
		"nothing reads, and SIGPIPE": {nil, []protocol.Event{closed, killed}, "", 141},
		"nothing reads":              {[]lostOutput{{1, 1, unix.EPIPE}}, nil, "", 141},
	} {
		j := testCoordinator()
		j.output = &mergedOutput{lost: make(chan lostOutput, 2), finished: make(chan struct{})}
		close(j.output.finished)
		for _, l := range c.lost {
			j.output.lost <- l
		}
		for _, e := range c.events {
			j.handleEvent(j.nodes[1], &e)
		}
		j.endStreams()
		v := j.outcome()
		got := strings.Join(v.Lines(), "\n")
		if v.Code != c.code || !strings.HasSuffix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q with code %d, want %q with %d", name, got, v.Code, c.want, c.code)
		}
	}
}

// A rank that has failed is on its own node, whichever node's event has shown it. An agent that cannot start is on its node.
func TestNodeOfFailure(t *testing.T) {
	for _, c := range []struct {
		events     []protocol.Event
		rank, node int
	}{
		{[]protocol.Event{{Kind: protocol.EventExit, Rank: 0}, {Kind: protocol.EventInit, Rank: 1}}, 0, 0},
		{[]protocol.Event{{Kind: protocol.EventNotStarted, Rank: -1, Code: 1, Text: "no memory"}}, -1, 1},
	} {
		j := testCoordinator()
		for _, e := range c.events {
			n := j.nodes[1]
			if e.Rank == 0 {
				n = j.nodes[0]
			}
			if err := n.checkEvent(&e); err != nil && n.number > 0 {
				t.Fatal(err)
			}
			j.handleEvent(n, &e)
		}
		if f := j.failure; f == nil || f.rank != c.rank || f.node != c.node {
			t.Errorf("%+v: %+v", c.events, f)
		}
	}
}
