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
	maxHistory           = 1024  // round trips that are kept
	rateSpread           = 20e-6 // assumed difference of the rates of two clocks before measurement
	sameKernelRateSpread = 1e-12 // and of two clocks of one kernel
)

// Fit fits a line to samples. The zero value is ready to use. Only one goroutine may use it at a time.
type Fit struct {
	// SameKernel is set if both clocks are one kernel's, in two time namespaces, and so differ by a constant.
	SameKernel bool
	// Clock, if not nil, is a started clock that follows the line with a delay. Its errors are recorded.
	Clock      *Clock
	points     []point
	bounds     boundSet
	roundTrips []int64 // round trips of bursts
	errors     []int64 // of the clock, at recent bursts, as far as these prove them
	line       Line
	uncertain  uncertainty // of line
}

// point is the fastest sample of a burst.
type point struct{ at, offset, trip int64 }

// Add takes the samples of a burst, and fits the line again. It reports whether the burst had a sample.
//
// Every sample, however slow, bounds the line: the answer was given after the question was sent and before the answer was
// received. The line passes between all bounds. Within them it is fitted to the fast samples, which are more accurate than their
// bounds. If all samples are slow, as under load, the bounds alone determine the line, and its rate.
func (f *Fit) Add(burst []Sample) bool {
	if len(burst) == 0 {
		return false
	}
	s := slices.MinFunc(burst, func(a, b Sample) int { return cmp.Compare(a.RoundTrip(), b.RoundTrip()) })
	p := point{trip: s.RoundTrip()}
	p.at, p.offset = s.middle()
	f.roundTrips = appendBounded(f.roundTrips, p.trip, maxHistory)
	if f.Clock != nil {
		f.recordError(p)
	}
	f.bounds.fixedRate = f.SameKernel
	f.bounds.add(burst)
	r, ok := f.bounds.region(p.at, f.RoundTrip()/2)
	if !ok {
		// No line fits: one of the clocks stood still or jumped, and what was measured before is useless.
		f.points, f.bounds.bursts = nil, nil
		f.bounds.add(burst)
		r, _ = f.bounds.region(p.at, f.RoundTrip()/2) // one burst contradicts itself only if a clock jumped within it
	}
	// The time by which a sample was slower than the fastest may all have been spent in one direction. So the middle of a slow
	// sample is worth less than its bounds, which are kept.
	line := Line{At: p.at, Offset: f.line.Time(p.at) - p.at, Rate: f.line.Rate}
	if slack := (p.trip - f.RoundTrip()) / 2; slack <= f.RoundTrip()/4 || len(f.points) == 0 {
		f.points = appendBounded(f.points, p, maxPoints)
		line = f.throughPoints(p.at)
	}
	f.line, f.uncertain = r.nearest(line)
	return true
}

// recordError records by how much a burst proves that the clock was wrong: the distance to the middle of its fastest sample,
// without the time by which this one was slower than the fastest of all.
func (f *Fit) recordError(p point) {
	slack := max(p.trip-f.RoundTrip(), 0) / 2
	f.errors = appendBounded(f.errors, max(absDiff(f.Clock.At(p.at), p.at+p.offset)-slack, 0), maxBursts)
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

// Bound returns the bound of the line's error: the largest recent error of the clock, or what the samples leave open if that is
// more.
func (f *Fit) Bound() Bound {
	b := Bound{At: f.uncertain.at, Error: f.uncertain.offset, Growth: f.uncertain.rate}
	for _, e := range f.errors {
		b.Error = max(b.Error, e)
	}
	return b
}

// Line returns the line through the samples.
func (f *Fit) Line() Line { return f.line }

// throughPoints returns the line through the points, weighted by how fast they were. While they cover only a short time, its
// rate is little more than the assumption that clocks run alike. Its At is at.
func (f *Fit) throughPoints(at int64) Line {
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
	offset := y + rate*(float64(at-last.at)-x)
	return Line{At: at, Offset: last.offset + int64(math.Round(offset)), Rate: max(min(rate, maxRate), -maxRate)}
}

// Correction returns a correction to the line that takes effect at time from of the source.
func (f *Fit) Correction(from int64) Correction {
	b := f.Bound()
	c := Correction{From: from, Line: f.line}
	c.Error, c.Growth = unpack(pack(b.Time(from), b.Growth)) // all processes that follow the line have the same values
	return c
}
