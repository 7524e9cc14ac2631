package coordinator

import (
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// hearing is a sequence of events in short: "init 0, exit 1 3" is rank 0 speaking up and rank 1 leaving with code 3.
func hearing(t *testing.T, j *failureTracker, story ...protocol.Event) (faults []failure) {
	t.Helper()
	for i := range story {
		if f := j.handleEvent(&story[i]); f != nil {
			faults = append(faults, *f)
		}
	}
	return faults
}

func TestJudge(t *testing.T) {
	start := protocol.Event{Kind: protocol.EventStarted, Ranks: []int{0, 1}, PIDs: []int{100, 101}}
	on := func(k protocol.Kind, rank int) protocol.Event { return protocol.Event{Kind: k, Rank: rank} }
	for _, c := range []struct {
		name  string
		story []protocol.Event
		rank  int
		code  int
		why   string // empty: no fault
	}{
		{"two programs without PMI", []protocol.Event{start, on(protocol.EventExit, 1), on(protocol.EventExit, 0)}, 0, 0, ""},
		{"all as it should be", []protocol.Event{start, on(protocol.EventInit, 1), on(protocol.EventInit, 0),
			on(protocol.EventFinalize, 0), on(protocol.EventExit, 0),
			on(protocol.EventFinalize, 1), on(protocol.EventExit, 1)}, 0, 0, ""},
		{"exit code", []protocol.Event{start, {Kind: protocol.EventExit, Rank: 1, Code: 3}, {Kind: protocol.EventExit, Rank: 0,
			Code: 4}}, 1, 3, "exit code 3"},
		{"signal", []protocol.Event{start, {Kind: protocol.EventExit, Rank: 0, Signal: 9}}, 0, 137, "SIGKILL"},
		{"before Finalize", []protocol.Event{start, on(protocol.EventInit, 0), on(protocol.EventExit, 0)}, 0, 1,
			"without calling Finalize, while rank 1"},
		{"before Init, others wait", []protocol.Event{start, on(protocol.EventInit, 0), on(protocol.EventExit, 1)}, 1, 1,
			"without calling Init, while rank 0"},
		{"before Init, others come later", []protocol.Event{start, on(protocol.EventExit, 1), on(protocol.EventInit, 0)}, 1, 1,
			"without calling Init, while rank 0"},
		{"before Init, the other has finalized", []protocol.Event{start, on(protocol.EventInit, 0), on(protocol.EventFinalize,
			0), on(protocol.EventExit, 1),
			on(protocol.EventExit, 0)}, 0, 0, ""},
		{"last one leaves without Finalize", []protocol.Event{start, on(protocol.EventInit, 0), on(protocol.EventInit, 1),
			on(protocol.EventFinalize, 0), on(protocol.EventExit, 0),
			on(protocol.EventExit, 1)}, 0, 0, ""},
		{"abort", []protocol.Event{start, {Kind: protocol.EventAbort, Rank: 1, Code: 7, Text: "no input"}}, 1, 7,
			"Abort(7): no input"},
		{"abort with a code that is none", []protocol.Event{start, {Kind: protocol.EventAbort, Rank: 1, Code: 256}}, 1, 1,
			"Abort(256)"},
		{"not started", []protocol.Event{{Kind: protocol.EventNotStarted, Rank: 1, Code: 126, Text: "exec"}}, 1, 126, "exec"},
	} {
		faults := hearing(t, newFailureTracker(2), c.story...)
		switch {
		case c.why == "" && len(faults) > 0:
			t.Errorf("%s: fault %+v", c.name, faults[0])
		case c.why != "" && len(faults) == 0:
			t.Errorf("%s: no fault", c.name)
		case c.why != "" && (faults[0].rank != c.rank || faults[0].code != c.code || !strings.Contains(faults[0].reason, c.why)):
			t.Errorf("%s: fault %+v, want rank %d, code %d, %q", c.name, faults[0], c.rank, c.code, c.why)
		}
	}
}

func TestJudgeWhenAsked(t *testing.T) {
	j := newFailureTracker(2)
	j.endRequested = true
	faults := hearing(t, j, protocol.Event{Kind: protocol.EventInit, Rank: 0}, protocol.Event{Kind: protocol.EventExit, Rank: 1},
		protocol.Event{Kind: protocol.EventExit, Rank: 0})
	if len(faults) > 0 || !j.allExited() {
		t.Errorf("ranks that leave when asked: faults %+v, all left: %v", faults, j.allExited())
	}
	if faults := hearing(t, newFailureTracker(1), protocol.Event{Kind: protocol.EventExit, Code: 130}); len(faults) != 1 {
		t.Errorf("faults %+v, want one", faults)
	}
}

// Of two nodes' faults the earlier one counts, and of one node's the one that was heard of first.
func TestEarlierFault(t *testing.T) {
	first := &failure{node: 1, time: 100}
	for _, c := range []struct {
		f    failure
		want bool
	}{{failure{node: 0, time: 99}, true}, {failure{node: 0, time: 101}, false}, {failure{node: 1, time: 99}, false}} {
		if got := c.f.precedes(first); got != c.want {
			t.Errorf("%+v: %v", c.f, got)
		}
	}
}
