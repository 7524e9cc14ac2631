package bench

import (
	"math"
	"slices"
	"time"
)

// Result is one measured point. Its JSON form is what `ibrun bench OP --json` prints, one line per point.
type Result struct {
	Op         string  `json:"op"`
	Ranks      int     `json:"ranks"`
	Size       int     `json:"size"` // bytes, as OSU prints it; 0 for barrier
	Unit       Unit    `json:"unit"`
	Value      float64 `json:"value"`      // the figure
	Iterations int     `json:"iterations"` // measured turns

	// Fastest and Slowest are the figures of the ranks with the shortest and the longest mean time, for collectives.
	Fastest float64 `json:"fastest,omitempty"`
	Slowest float64 `json:"slowest,omitempty"`

	// Percentiles over single turns, where they were asked for.
	Percentiles *Percentiles `json:"percentiles,omitempty"`

	// Written says that messages were written before they were sent; see Config.Written.
	Written bool `json:"written,omitempty"`

	// Validated says that the data was checked, Wrong how many elements were not what they should be, over all ranks.
	Validated bool `json:"validated,omitempty"`
	Wrong     int  `json:"wrong,omitempty"`
}

// Percentiles are figures of single turns, in the result's unit: P99 is that of the turn which was slower than 99 % of
// them, whether the figure is a time or a rate. A turn of a collective took as long as its slowest rank.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

// Percentile is the nearest-rank percentile of times in ascending order: the smallest that is not exceeded by p percent
// of them. It panics when there are none.
func Percentile(ascending []time.Duration, p float64) time.Duration {
	n := len(ascending)
	i := int(math.Ceil(p*float64(n)/100)) - 1
	return ascending[min(max(i, 0), n-1)]
}

// figure turns the time of n turns into the operation's unit.
func (op Op) figure(took time.Duration, n int, size, ranks, window int) float64 {
	seconds := took.Seconds()
	messages := float64(n) * float64(window)
	switch {
	case op.Name == "latency", op.Derived():
		return seconds * 1e6 / (2 * float64(n))
	case op.Name == "bibw":
		return 2 * messages * float64(size) / 1e6 / seconds
	case op.Unit == MegabytesPerSec:
		return messages * float64(size) / 1e6 / seconds
	case op.Unit == MessagesPerSecond:
		return messages * float64(ranks/2) / seconds
	}
	return seconds * 1e6 / float64(n)
}

// percentilesOf sorts the times and returns their percentiles.
func percentilesOf(laps []time.Duration, figure func(time.Duration) float64) *Percentiles {
	slices.Sort(laps)
	return &Percentiles{
		P50: figure(Percentile(laps, 50)),
		P90: figure(Percentile(laps, 90)),
		P99: figure(Percentile(laps, 99)),
	}
}
