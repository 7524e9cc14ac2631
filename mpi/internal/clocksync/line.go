package clocksync

import "math"

// Line tells common time by the time of a source.
type Line struct {
	// At is a moment of the source, in nanoseconds.
	At int64
	// Offset is by how much common time is ahead at that moment, in nanoseconds.
	Offset int64
	// Rate is how much further ahead it gets in each nanosecond.
	Rate float64
}

// Time is the common time when the source shows t. It never goes back as t goes on.
func (l Line) Time(t int64) int64 { return t + l.Offset + int64(l.Rate*float64(t-l.At)) }

// Correction is a correction: from some moment of its source on a clock leaves its way for another line, gently.
type Correction struct {
	// From is the moment.
	From int64
	// Line is what the clock follows in the end.
	Line Line
	// Residual is how well the line is known, in nanoseconds; see [Fit.Residual].
	Residual int64
}

// Limits of what is believed of another process. Rates of real clocks are a hundredth of maxRate.
const (
	maxRate = 0.01
	maxTime = math.MaxInt64 / 4
)

// Encode are the bend as five numbers.
func (b Correction) Encode() [5]uint64 {
	return [5]uint64{
		uint64(b.From), uint64(b.Line.At), uint64(b.Line.Offset), math.Float64bits(b.Line.Rate), uint64(b.Residual),
	}
}

// DecodeCorrection is the bend that five numbers describe, and false if none has them.
func DecodeCorrection(w [5]uint64) (Correction, bool) {
	b := Correction{int64(w[0]), Line{int64(w[1]), int64(w[2]), math.Float64frombits(w[3])}, int64(w[4])}
	return b, b.Line.valid() && inRange(b.From) && b.Residual >= 0
}

// valid tells whether a line can be computed with.
func (l Line) valid() bool { return math.Abs(l.Rate) <= maxRate && inRange(l.At) && inRange(l.Offset) }

func inRange(t int64) bool { return -maxTime < t && t < maxTime }
