package clocksync

import (
	"cmp"
	"math"
	"slices"
)

// Sample is one measurement of the reference clock.
type Sample struct {
	// Sent and Received are the times of the question and of the answer, by the local source. Remote is the time in the answer.
	Sent, Remote, Received int64
}

// RoundTrip returns the duration of the exchange in nanoseconds.
func (s Sample) RoundTrip() int64 { return s.Received - s.Sent }

// middle returns when the answer was given, if both directions took equally long, and how far the reference was ahead
// then.
func (s Sample) middle() (at, offset int64) {
	at = s.Sent + s.RoundTrip()/2
	return at, s.Remote - at
}

const (
	maxPoints            = 32    // points to which the line is fitted
	maxHistory           = 1024  // errors and round trips that are kept
	rateSpread           = 20e-6 // assumed difference of the rates of two clocks before measurement
	sameKernelRateSpread = 1e-12 // and of two clocks of one kernel
)

// Fit fits a line to samples. The zero value is ready to use. Only one goroutine may use it at a time.
type Fit struct {
	// SameKernel is set if both clocks are one kernel's, in two time namespaces, and so differ by a constant.
	SameKernel bool
	// Clock, if not nil, is a started clock that follows the line with a delay. The recorded errors are then those of the clock.
	Clock      *Clock
	points     []point
	roundTrips []int64 // round trips of bursts, kept or not
	errors     []int64 // of the line or the clock, at bursts that were kept
}

// point is the fastest sample of a burst.
type point struct{ at, offset, trip int64 }

// Add takes the samples of a burst and keeps the fastest if it contains information. It reports whether it does.
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
			// The line predicts that the answer was given before the question or after its arrival. So one of the clocks
			// stood still or changed its rate, and the old points are useless.
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

// constrain reduces a sample to what it adds to a line, and reports whether it adds anything. The time by which the
// sample was slower than the fastest may all have been spent in one direction; where messages queue in one direction
// it is, in every sample. So a slow sample only gives an interval for the offset, in which all values are equally
// likely. A line that passes through the interval remains valid.
func (p *point) constrain(line Line, best int64) bool {
	slack := (p.trip - best) / 2
	if slack <= best/4 {
		return true
	}
	predicted := line.Time(p.at) - p.at
	nearest := min(max(predicted, p.offset-slack), p.offset+slack)
	if nearest == predicted {
		return false
	}
	p.offset, p.trip = nearest, best+best/2
	return true
}

func absDiff(a, b int64) int64 { return max(a-b, b-a) }

// appendBounded appends to a list, and removes the oldest element if the list would exceed a length.
func appendBounded[T any](list []T, x T, most int) []T {
	if len(list) == most {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, x)
}

// RoundTrip returns the fastest recent round trip in nanoseconds.
func (f *Fit) RoundTrip() int64 { return slices.Min(f.roundTrips) }

// Residual returns the 99.9th percentile of the errors of the line or the clock in nanoseconds, over the bursts in
// memory. With few bursts it is their maximum. Before the second burst it is half a round trip.
func (f *Fit) Residual() int64 {
	n := len(f.errors)
	if n == 0 {
		return f.RoundTrip() / 2
	}
	return slices.Sorted(slices.Values(f.errors))[(n*999+999)/1000-1]
}

// Line returns the line through the samples, weighted by how fast they were. While they cover only a short time, its
// rate is little more than the assumption that clocks run alike.
func (f *Fit) Line() Line {
	last := f.points[len(f.points)-1]
	best := f.RoundTrip()
	var n, x, y float64
	weights := make([]float64, len(f.points))
	// Times and offsets are relative to those of the last sample, so that a float64 represents them to the nanosecond.
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

// Correction returns a correction to the line that takes effect at time from of the source.
func (f *Fit) Correction(from int64) Correction { return Correction{from, f.Line(), f.Residual()} }
