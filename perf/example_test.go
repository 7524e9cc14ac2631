package perf_test

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/perf"
)

// A rank writes its page. A process that maps the same memory can read it at any time.
func Example() {
	memory := make([]byte, perf.PageBytes)
	r, err := perf.NewRecorder(memory, perf.Identity{Rank: 3, Size: 8}, perf.On)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 5 {
		start := r.Begin(perf.Send, 100)
		// Here it is done.
		r.End(perf.Send, 100, start)
	}

	page, err := perf.Open(memory) // elsewhere
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := page.Snapshot()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range s.Ops {
		fmt.Printf("rank %d of %d: %d calls of %v with up to %v bytes, %d together\n", s.Rank, s.Size, o.Calls, o.Op, o.Class, o.Bytes)
	}
	// Output: rank 3 of 8: 5 calls of Send with up to 512 bytes, 500 together
}

// Histograms of several ranks can be added. A quantile is at most 1/32 from the value.
func ExampleHistogram_Quantile() {
	all := perf.HistogramOf(time.Microsecond, 2*time.Microsecond, 3*time.Microsecond)
	all.Merge(perf.HistogramOf(time.Millisecond))
	fmt.Println(all.Count(), "in", all.Sum())
	fmt.Println("median near 2µs:", all.Quantile(0.5).Round(time.Microsecond))
	fmt.Println("longest:", all.Max())
	// Output:
	// 4 in 1.006ms
	// median near 2µs: 2µs
	// longest: 1ms
}
