package alloctest

import (
	"runtime/debug"
	"testing"
)

// keeper keeps what a test allocates, so that it is on the heap.
type keeper struct{ p *int }

func (k *keeper) allocate() { k.p = new(int) }

func TestCount(t *testing.T) {
	const runs = 10
	var k keeper
	for name, c := range map[string]struct {
		allocates func(call int) bool // call counts from 0
		want      float64
	}{
		"none":              {func(int) bool { return false }, 0},
		"one":               {func(int) bool { return true }, 1},
		"first count":       {func(call int) bool { return call < Calls(runs)/3 }, 0},
		"all but the last":  {func(call int) bool { return call < Calls(runs)*2/3 }, 0},
		"all but the first": {func(call int) bool { return call >= Calls(runs)/3 }, 0},
		"warm-up calls":     {func(call int) bool { return call%(runs+1) == 0 }, 0},
	} {
		call := 0
		n := Count(runs, func() {
			if c.allocates(call) {
				k.allocate()
			}
			call++
		})
		if n != c.want || call != Calls(runs) {
			t.Errorf("%s: %v allocations, want %v; %d calls, want %d", name, n, c.want, call, Calls(runs))
		}
	}
}

func TestCalls(t *testing.T) {
	for runs, want := range map[int]int{1: 6, 10: 33, 1000: 3003} {
		calls := 0
		Count(runs, func() { calls++ })
		if calls != want || Calls(runs) != want {
			t.Errorf("%d runs: %d calls, and Calls returns %d; want %d", runs, calls, Calls(runs), want)
		}
	}
}

// TestCollector: the garbage collector is off during the calls, and as before afterwards, even if a call ends the goroutine.
func TestCollector(t *testing.T) {
	const percent = 123
	defer debug.SetGCPercent(debug.SetGCPercent(percent))
	check := func(when string, want int) {
		t.Helper()
		got := debug.SetGCPercent(want)
		if got != want {
			t.Errorf("%s: the percentage is %d, want %d", when, got, want)
		}
	}
	Count(1, func() { check("in a call", -1) })
	check("afterwards", percent)
	func() {
		defer func() { _ = recover() }()
		Count(1, func() { panic("out of a call") })
	}()
	check("after a panic", percent)
}
