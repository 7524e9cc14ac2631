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
	// Error bounds the error of the line at From, in nanoseconds; it grows by Growth with every nanosecond. See [Bound].
	Error  int64
	Growth float64
}

// Limits of the values accepted from another process. Rates of real clocks are below a hundredth of maxRate.
const (
	maxRate = 0.01
	maxTime = math.MaxInt64 / 4
)

// growthUnit is the unit of a growth in a word. It is a power of two, so that packing again what was unpacked changes nothing.
const growthUnit = 1. / (1 << 37)

// pack returns an error and its growth as one word. Values that do not fit become the largest that do.
func pack(err int64, growth float64) uint64 {
	const most = math.MaxUint32
	return uint64(min(max(err, 0), most)) | uint64(min(math.Ceil(max(growth, 0)/growthUnit), most))<<32
}

// unpack is the inverse of pack.
func unpack(w uint64) (err int64, growth float64) {
	return int64(uint32(w)), float64(w>>32) * growthUnit
}

// Encode returns the correction as five words.
func (b Correction) Encode() [5]uint64 {
	return [5]uint64{
		uint64(b.From), uint64(b.Line.At), uint64(b.Line.Offset), math.Float64bits(b.Line.Rate), pack(b.Error, b.Growth),
	}
}

// DecodeCorrection returns the correction that five words encode, and false if they are invalid.
func DecodeCorrection(w [5]uint64) (Correction, bool) {
	b := Correction{From: int64(w[0]), Line: Line{int64(w[1]), int64(w[2]), math.Float64frombits(w[3])}}
	b.Error, b.Growth = unpack(w[4])
	return b, b.Line.valid() && inRange(b.From)
}

// valid reports whether the values of a line are in the accepted range.
func (l Line) valid() bool { return math.Abs(l.Rate) <= maxRate && inRange(l.At) && inRange(l.Offset) }

func inRange(t int64) bool { return -maxTime < t && t < maxTime }
