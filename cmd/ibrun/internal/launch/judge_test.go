package launch

import (
	"strings"
	"testing"
)

// hearing is a sequence of events in short: "init 0, exit 1 3" is rank 0 speaking up and rank 1 leaving with code 3.
func hearing(t *testing.T, j *failureTracker, story ...Event) (faults []failure) {
	t.Helper()
	for i := range story {
		if f := j.handleEvent(&story[i]); f != nil {
			faults = append(faults, *f)
		}
	}
	return faults
}

func TestJudge(t *testing.T) {
	start := Event{Kind: EventStarted, Ranks: []int{0, 1}, PIDs: []int{100, 101}}
	on := func(k Kind, rank int) Event { return Event{Kind: k, Rank: rank} }
	for _, c := range []struct {
		name  string
		story []Event
		rank  int
		code  int
		why   string // empty: no fault
	}{
		{"two programs without PMI", []Event{start, on(EventExit, 1), on(EventExit, 0)}, 0, 0, ""},
		{"all as it should be", []Event{start, on(EventInit, 1), on(EventInit, 0), on(EventFinalize, 0), on(EventExit, 0),
			on(EventFinalize, 1), on(EventExit, 1)}, 0, 0, ""},
		{"exit code", []Event{start, {Kind: EventExit, Rank: 1, Code: 3}, {Kind: EventExit, Rank: 0, Code: 4}}, 1, 3, "exit code 3"},
		{"signal", []Event{start, {Kind: EventExit, Rank: 0, Signal: 9}}, 0, 137, "SIGKILL"},
		{"before Finalize", []Event{start, on(EventInit, 0), on(EventExit, 0)}, 0, 1, "before Finalize, and rank 1"},
		{"before Init, others wait", []Event{start, on(EventInit, 0), on(EventExit, 1)}, 1, 1, "before Init, and rank 0"},
		{"before Init, others come later", []Event{start, on(EventExit, 1), on(EventInit, 0)}, 1, 1, "before Init, and rank 0"},
		{"before Init, the other has finalized", []Event{start, on(EventInit, 0), on(EventFinalize, 0), on(EventExit, 1),
			on(EventExit, 0)}, 0, 0, ""},
		{"last one leaves without Finalize", []Event{start, on(EventInit, 0), on(EventInit, 1), on(EventFinalize, 0), on(EventExit, 0),
			on(EventExit, 1)}, 0, 0, ""},
		{"abort", []Event{start, {Kind: EventAbort, Rank: 1, Code: 7, Text: "no input"}}, 1, 7, "Abort with code 7: no input"},
		{"abort with a code that is none", []Event{start, {Kind: EventAbort, Rank: 1, Code: 256}}, 1, 1, "Abort with code 256"},
		{"not started", []Event{{Kind: EventNotStarted, Rank: 1, Code: 126, Text: "exec"}}, 1, 126, "exec"},
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
	faults := hearing(t, j, Event{Kind: EventInit, Rank: 0}, Event{Kind: EventExit, Rank: 1}, Event{Kind: EventExit, Rank: 0})
	if len(faults) > 0 || !j.allExited() {
		t.Errorf("ranks that leave when asked: faults %+v, all left: %v", faults, j.allExited())
	}
	if faults := hearing(t, newFailureTracker(1), Event{Kind: EventExit, Code: 130}); len(faults) != 1 {
		t.Errorf("faults %+v, want one", faults)
	}
}
