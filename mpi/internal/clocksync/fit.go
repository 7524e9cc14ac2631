package clocksync

import (
	"cmp"
	"math"
	"slices"
)

// Sample is one question for the time.
type Sample struct {
	// Sent and Back are when question and answer passed by, by the source that asks; There is what the answer says.
	Sent, Remote, Received int64
}

// RoundTrip is how long it took, in nanoseconds.
func (s Sample) RoundTrip() int64 { return s.Received - s.Sent }

// middle is when the answer was given, if both ways took equally long, and by how much the other clock was ahead then.
func (s Sample) middle() (at, offset int64) {
	at = s.Sent + s.RoundTrip()/2
	return at, s.Remote - at
}

const (
	maxPoints            = 32    // the line goes through
	maxHistory           = 1024  // errors are remembered, and round trips
	rateSpread           = 20e-6 // rates of clocks differ by, as long as nothing is known of them
	sameKernelRateSpread = 1e-12 // and those of one kernel
)

// Fit lays a line through samples. The zero value is ready. One goroutine uses it at a time.
type Fit struct {
	// SameKernel says that both clocks are one kernel's, in two time namespaces, and so a constant apart.
	SameKernel bool
	// Clock, if not nil, is the one that follows the line, a little behind: it has been started, and the errors are its own.
	Clock      *Clock
	points     []point
	roundTrips []int64 // round trips of bursts, kept or not
	errors     []int64 // by how much line or clock was off, at bursts that were kept
}

// point is the fastest sample of a burst.
type point struct{ at, offset, trip int64 }

// Add takes samples that were made in a row and keeps what the fastest tells, if it tells something. It reports whether it does.
func (f *Fit) Add(burst []Sample) bool {
	if len(burst) == 0 {
		return false
	}
	s := slices.MinFunc(burst, func(a, b Sample) int { return cmp.Compare(a.RoundTrip(), b.RoundTrip()) })
	p := point{trip: s.RoundTrip()}
	p.at, p.offset = s.middle()
	f.roundTrips = appendBounded(f.roundTrips, p.trip, maxHistory)
	if len(f.points) > 0 {
		line := f.Line()
		if absDiff(line.Time(p.at), p.at+p.offset) > p.trip/2+1 {
			// It cannot be: the answer was given between question and answer. One of the clocks stood still, or has
			// another pace by now.
			f.points = f.points[:0]
		} else if !p.constrain(line, f.RoundTrip()) {
			return false
		}
		if f.Clock == nil {
			f.errors = appendBounded(f.errors, absDiff(line.Time(p.at), p.at+p.offset), maxHistory)
		} else {
			f.errors = appendBounded(f.errors, absDiff(f.Clock.At(p.at), p.at+p.offset), maxHistory)
		}
	}
	f.points = appendBounded(f.points, p, maxPoints)
	return true
}

// constrain makes of a sample what it tells beyond a line, and reports whether it tells anything. What it took longer than the
// fastest may all have gone into one way: where messages queue in one direction it does, at every sample. So a slow one tells a
// stretch in which the offset is, no point of which is more likely than another, and a line that passes there stays.
func (p *point) constrain(line Line, best int64) bool {
	slack := (p.trip - best) / 2
	if slack <= best/4 {
		return true
	}
	told := line.Time(p.at) - p.at
	nearest := min(max(told, p.offset-slack), p.offset+slack)
	if nearest == told {
		return false
	}
	p.offset, p.trip = nearest, best+best/2
	return true
}

func absDiff(a, b int64) int64 { return max(a-b, b-a) }

// appendBounded appends to a list and drops the oldest beyond a length.
func appendBounded[T any](list []T, x T, most int) []T {
	if len(list) == most {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, x)
}

// RoundTrip is the fastest there was of late, in nanoseconds.
func (f *Fit) RoundTrip() int64 { return slices.Min(f.roundTrips) }

// Residual is what 999 of 1000 bursts found the line or the clock to be off by at most, in nanoseconds: of those in memory,
// which is all of them as long as they are fewer. Before the second burst it is half a round trip.
func (f *Fit) Residual() int64 {
	n := len(f.errors)
	if n == 0 {
		return f.RoundTrip() / 2
	}
	return slices.Sorted(slices.Values(f.errors))[(n*999+999)/1000-1]
}

// Line is the line through the samples, weighted by how fast they were. Until they stretch over some time its rate is
// hardly more than a guess that clocks are alike.
func (f *Fit) Line() Line {
	last := f.points[len(f.points)-1]
	best := f.RoundTrip()
	var n, x, y float64
	weights := make([]float64, len(f.points))
	// Times and offsets count from those of the last sample, so that they fit a float64 to the nanosecond.
	for i, p := range f.points {
		noise := float64(p.trip-best)/2 + float64(best)/50 + 10
		weights[i] = 1 / (noise * noise)
		n += weights[i]
		x += weights[i] * float64(p.at-last.at)
		y += weights[i] * float64(p.offset-last.offset)
	}
	x, y = x/n, y/n
	var xx, xy float64
	for i, p := range f.points {
		dx, dy := float64(p.at-last.at)-x, float64(p.offset-last.offset)-y
		xx += weights[i] * dx * dx
		xy += weights[i] * dx * dy
	}
	guess := rateSpread
	if f.SameKernel {
		guess = sameKernelRateSpread
	}
	rate := xy / (xx + 1/(guess*guess))
	return Line{At: last.at, Offset: last.offset + int64(math.Round(y-rate*x)), Rate: max(min(rate, maxRate), -maxRate)}
}

// Correction is a correction towards the line, from a moment of the source on.
func (f *Fit) Correction(from int64) Correction { return Correction{from, f.Line(), f.Residual()} }
