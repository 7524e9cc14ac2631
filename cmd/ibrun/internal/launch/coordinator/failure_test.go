package coordinator

import (
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// failuresOf returns the failures that a sequence of events shows.
func failuresOf(t *testing.T, j *failureTracker, events ...protocol.Event) (failures []failure) {
	t.Helper()
	for i := range events {
		if f := j.handleEvent(&events[i]); f != nil {
			failures = append(failures, *f)
		}
	}
	return failures
}

func TestFailures(t *testing.T) {
	start := protocol.Event{Kind: protocol.EventStarted, Ranks: []int{0, 1}, PIDs: []int{100, 101}}
	on := func(k protocol.Kind, rank int) protocol.Event { return protocol.Event{Kind: k, Rank: rank} }
	for _, c := range []struct {
		name   string
		events []protocol.Event
		rank   int
		code   int
		why    string // empty: no failure
	}{
		{"two programs without PMI", []protocol.Event{start, on(protocol.EventExit, 1), on(protocol.EventExit, 0)}, 0, 0, ""},
		{"successful job", []protocol.Event{start, on(protocol.EventInit, 1), on(protocol.EventInit, 0),
			on(protocol.EventFinalize, 0), on(protocol.EventExit, 0),
			on(protocol.EventFinalize, 1), on(protocol.EventExit, 1)}, 0, 0, ""},
		{"exit code", []protocol.Event{start, {Kind: protocol.EventExit, Rank: 1, Code: 3}, {Kind: protocol.EventExit, Rank: 0,
			Code: 4}}, 1, 3, "exit code 3"},
		{"signal", []protocol.Event{start, {Kind: protocol.EventExit, Rank: 0, Signal: 9}}, 0, 137, "SIGKILL"},
		{"before Finalize", []protocol.Event{start, on(protocol.EventInit, 0), on(protocol.EventExit, 0)}, 0, 1,
			"without calling Finalize, while rank 1"},
		{"before Init, others wait", []protocol.Event{start, on(protocol.EventInit, 0), on(protocol.EventExit, 1)}, 1, 1,
			"without calling Init, while rank 0"},
		{"before Init, others initialize later", []protocol.Event{start, on(protocol.EventExit, 1), on(protocol.EventInit, 0)},
			1, 1,
			"without calling Init, while rank 0"},
		{"before Init, the other has finalized", []protocol.Event{start, on(protocol.EventInit, 0), on(protocol.EventFinalize,
			0), on(protocol.EventExit, 1),
			on(protocol.EventExit, 0)}, 0, 0, ""},
		{"the last rank exits without Finalize", []protocol.Event{start, on(protocol.EventInit, 0), on(protocol.EventInit, 1),
			on(protocol.EventFinalize, 0), on(protocol.EventExit, 0),
			on(protocol.EventExit, 1)}, 0, 0, ""},
		{"abort", []protocol.Event{start, {Kind: protocol.EventAbort, Rank: 1, Code: 7, Text: "no input"}}, 1, 7,
			"Abort(7): no input"},
		{"abort with an invalid code", []protocol.Event{start, {Kind: protocol.EventAbort, Rank: 1, Code: 256}}, 1, 1,
			"Abort(256)"},
		{"not started", []protocol.Event{{Kind: protocol.EventNotStarted, Rank: 1, Code: 126, Text: "exec"}}, 1, 126, "exec"},
	} {
		failures := failuresOf(t, newFailureTracker(2), c.events...)
		switch {
		case c.why == "" && len(failures) > 0:
			t.Errorf("%s: failure %+v", c.name, failures[0])
		case c.why != "" && len(failures) == 0:
			t.Errorf("%s: no failure", c.name)
		case c.why != "" && (failures[0].rank != c.rank || failures[0].code != c.code || !strings.Contains(failures[0].reason,
			c.why)):
			t.Errorf("%s: failure %+v, want rank %d, code %d, %q", c.name, failures[0], c.rank, c.code, c.why)
		}
	}
}

func TestFailureAfterRequest(t *testing.T) {
	j := newFailureTracker(2)
	j.endRequested = true
	failures := failuresOf(t, j, protocol.Event{Kind: protocol.EventInit, Rank: 0}, protocol.Event{Kind: protocol.EventExit,
		Rank: 1},
		protocol.Event{Kind: protocol.EventExit, Rank: 0})
	if len(failures) > 0 || !j.allExited() {
		t.Errorf("ranks that exit when asked: failures %+v, all exited: %v", failures, j.allExited())
	}
	if failures := failuresOf(t, newFailureTracker(1), protocol.Event{Kind: protocol.EventExit, Code: 130}); len(failures) != 1 {
		t.Errorf("failures %+v, want one", failures)
	}
}

// Of two nodes' failures of one kind the earlier one counts, and of one node's failures the one that was received first. A
// failure of a higher kind counts also if it was noticed a little later.
func TestPrecedes(t *testing.T) {
	const early, late = 100, 100 + int64(reactionTime)
	for _, c := range []struct {
		f, first failure
		want     bool
	}{
		{failure{node: 0, time: 99}, failure{node: 1, time: 100}, true},
		{failure{node: 0, time: 101}, failure{node: 1, time: 100}, false},
		{failure{node: 1, time: 99}, failure{node: 1, time: 100}, false},
		{failure{node: 1, time: 99, kind: death}, failure{node: 1, time: 100}, false},
		{failure{node: 1, time: 101}, failure{node: 1, time: 100, kind: death, started: true}, true},
		{failure{node: 1, time: 99, lost: true}, failure{node: 1, time: 100, kind: death, started: true}, false},
		{failure{node: 0, time: late - 1, kind: death}, failure{node: 1, time: early}, true},
		{failure{node: 0, time: late, kind: death}, failure{node: 1, time: early}, false},
		{failure{node: 0, time: late - 1}, failure{node: 1, time: early, kind: reaction}, true},
		{failure{node: 0, time: late}, failure{node: 1, time: early, kind: reaction}, false},
		{failure{node: 0, time: early, kind: reaction}, failure{node: 1, time: late - 1}, false},
		{failure{node: 0, time: early}, failure{node: 1, time: late - 1, kind: death}, false},
		{failure{node: 0, time: early}, failure{node: 1, time: late, kind: death}, true},
	} {
		if got := c.f.precedes(&c.first); got != c.want {
			t.Errorf("%+v precedes %+v: %v", c.f, c.first, got)
		}
	}
}
