package core

import (
	"testing"

	"github.com/ibrun/ibrun/perf"
)

// TestStartedCollectives: ranks that have started the same calls have the same sum, and others have another one.
func TestStartedCollectives(t *testing.T) {
	type start struct {
		tag  int32
		call perf.Op
	}
	sum := func(starts ...start) uint64 {
		var s startedCollectives
		for _, x := range starts {
			s.add(x.tag, x.call)
		}
		return s.sum.Load()
	}
	one, two := start{immediateTag | 1, perf.Ibarrier}, start{immediateTag | 2, perf.Ibcast}
	for name, x := range map[string]struct {
		mine, other uint64
		same        bool
	}{
		"none":                     {sum(), sum(), true},
		"in another order of time": {sum(one, two), sum(two, one), true},
		"Alltoallv of views":       {sum(start{5, perf.Ialltoallw}), sum(start{5, perf.Ialltoallv}), true},
		"one missing":              {sum(one, two), sum(one), false},
		"another tag":              {sum(one), sum(start{immediateTag | 2, perf.Ibarrier}), false},
		"another call":             {sum(one), sum(start{immediateTag | 1, perf.Ibcast}), false},
		"calls exchanged": {sum(start{1, perf.Ibarrier}, start{2, perf.Ibcast}),
			sum(start{1, perf.Ibcast}, start{2, perf.Ibarrier}), false},
		"started twice": {sum(one, one), sum(one), false},
	} {
		if got := x.mine == x.other; got != x.same {
			t.Errorf("%s: the same %v, want %v", name, got, x.same)
		}
	}
}
