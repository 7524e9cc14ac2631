package liveness

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// TestTimers: whatever is set and removed, timer 0 is the one that expires first, and each timer is
// there once.
func TestTimers(t *testing.T) {
	const peers = 20
	rnd := rand.New(rand.NewPCG(soaktest.Seed(t), 0))
	var x Timers[int]
	var timers [peers]Timer
	want := map[int]time.Duration{}
	for range 5000 {
		p := rnd.IntN(peers)
		if rnd.IntN(3) == 0 {
			x.Remove(&timers[p])
			delete(want, p)
		} else {
			at := time.Duration(rnd.IntN(50))
			x.Set(&timers[p], p, at)
			want[p] = at
		}
		if x.Len() != len(want) {
			t.Fatalf("%d timers, want %d", x.Len(), len(want))
		}
		var all []int
		for i := range x.Len() {
			all = append(all, x.Of(i))
		}
		slices.Sort(all)
		for i, p := range all {
			if _, ok := want[p]; !ok || i > 0 && all[i-1] == p || want[p] < x.Next() {
				t.Fatalf("the timers are of %v, want %v; the first expires at %d", all, want, x.Next())
			}
		}
		for p := range timers {
			if _, ok := want[p]; ok != timers[p].IsSet() {
				t.Fatalf("the timer of %d is set: %v", p, !ok)
			}
		}
		if len(want) > 0 && want[x.Of(0)] != x.Next() {
			t.Fatalf("timer 0 is of %d, which expires at %d; the first expires at %d", x.Of(0), want[x.Of(0)], x.Next())
		}
	}
}
