// Package alloctest counts allocations in tests.
//
// A single count fails by chance: the runtime or another goroutine allocates meanwhile, or the garbage collector empties a
// sync.Pool. Count is the least of several counts, without the collector.
//
//	if n := alloctest.Count(100, func() { link.Out(8) }); n != 0 {
//		t.Errorf("%v allocations", n)
//	}
//
// A partner of the measured calls makes as many calls:
//
//	for range alloctest.Calls(100) {
//		link.In(8)
//	}
package alloctest

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// counts is the number of counts of which Count returns the least.
const counts = 3

// Count returns how often a call of f allocates: the least of three counts by testing.AllocsPerRun. Each count is the average of
// runs calls, rounded down, after one call that is not counted. The garbage collector is off meanwhile. Count always makes
// Calls(runs) calls, unless f ends the goroutine, as t.Fatal does. It panics in a parallel test.
func Count(runs int, f func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC() // what it sets off, such as finalizers, is in the first count at most
	least := testing.AllocsPerRun(runs, f)
	for range counts - 1 {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}

// Calls returns the number of calls that Count makes of its function.
func Calls(runs int) int { return counts * (runs + 1) }
