package clocksync

import "math"

// Line maps the time of a source to common time.
type Line struct {
	// At is a time of the source, in nanoseconds.
	At int64
	// Offset is how far common time is ahead of the source at that time, in nanoseconds.
	Offset int64
	// Rate is the increase of the offset per nanosecond.
	Rate float64
}

// Time returns the common time at time t of the source. It never decreases as t increases.
func (l Line) Time(t int64) int64 { return t + l.Offset + int64(l.Rate*float64(t-l.At)) }

// Correction is a change of a clock: from some time of its source on, the clock approaches another line slowly.
type Correction struct {
	// From is the time of the source at which the change begins, in nanoseconds.
	From int64
	// Line is the line that the clock follows in the end.
	Line Line
	// Residual is the estimated error of the line in nanoseconds; see [Fit.Residual].
	Residual int64
}

// Limits of the values accepted from another process. Rates of real clocks are below a hundredth of maxRate.
const (
	maxRate = 0.01
	maxTime = math.MaxInt64 / 4
)

// Encode returns the correction as five words.
func (b Correction) Encode() [5]uint64 {
	return [5]uint64{
		uint64(b.From), uint64(b.Line.At), uint64(b.Line.Offset), math.Float64bits(b.Line.Rate), uint64(b.Residual),
	}
}

// DecodeCorrection returns the correction that five words encode, and false if they are invalid.
func DecodeCorrection(w [5]uint64) (Correction, bool) {
	b := Correction{int64(w[0]), Line{int64(w[1]), int64(w[2]), math.Float64frombits(w[3])}, int64(w[4])}
	return b, b.Line.valid() && inRange(b.From) && b.Residual >= 0
}

// valid reports whether the values of a line are in the accepted range.
func (l Line) valid() bool { return math.Abs(l.Rate) <= maxRate && inRange(l.At) && inRange(l.Offset) }

func inRange(t int64) bool { return -maxTime < t && t < maxTime }
