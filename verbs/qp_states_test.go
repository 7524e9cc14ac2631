package verbs

import (
	"strings"
	"testing"
)

// TestTransitions compares the table with the specification: the states that can be reached from each state.
func TestTransitions(t *testing.T) {
	states := []State{StateReset, StateInit, StateRTR, StateRTS, StateSQD, StateSQE, StateErr}
	reach := map[State]string{StateReset: "RESET INIT", StateInit: "RESET INIT RTR ERR", StateRTR: "RESET RTS ERR",
		StateRTS: "RESET RTS SQD ERR", StateSQD: "RESET RTS SQD ERR", StateSQE: "RESET RTS ERR", StateErr: "RESET ERR"}
	for _, typ := range []QPType{RC, UC, UD} {
		for _, from := range states {
			var can []string
			for _, to := range states {
				mask := AttrState | transitions[stateChange{from, to}].need[typ]
				if forbiddenTransition(typ, from, to, mask) == "" {
					can = append(can, to.String())
				}
			}
			if got := strings.Join(can, " "); got != reach[from] {
				t.Errorf("%v: from %v a pair can change to %s, want %s", typ, from, got, reach[from])
			}
		}
	}
}

// TestTransitionMasks compares masks with the numbers that the kernel's interface documents.
func TestTransitionMasks(t *testing.T) {
	for _, c := range []struct {
		t        QPType
		from, to State
		need     AttrMask
	}{
		{RC, StateReset, StateInit, 0x39}, {UC, StateReset, StateInit, 0x39}, {UD, StateReset, StateInit, 0x71},
		{RC, StateInit, StateRTR, 0x129181}, {UC, StateInit, StateRTR, 0x101181}, {UD, StateInit, StateRTR, 0x1},
		{RC, StateRTR, StateRTS, 0x12e01}, {UC, StateRTR, StateRTS, 0x10001}, {UD, StateRTR, StateRTS, 0x10001},
	} {
		if got := AttrState | transitions[stateChange{c.from, c.to}].need[c.t]; got != c.need {
			t.Errorf("%v from %v to %v: %#x (%v), want %#x", c.t, c.from, c.to, got, got, c.need)
		}
	}
	want := "missing RetryCount, RNRRetry, MaxRDAtomic, SQPSN, and the transition does not allow QKey"
	if got := forbiddenTransition(RC, StateRTR, StateRTS, AttrState|AttrTimeout|AttrQKey); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
