package clocksync

import "math"

const (
	maxBursts = 48 // bursts whose bounds are kept
	// The rates of two clocks are assumed to differ by at most plausibleRate, unless the samples show that they differ more.
	plausibleRate = 250e-6
	// drift is the assumed change of a clock's rate per nanosecond, from changes of temperature: a hundredth of a millionth per
	// second.
	drift = 1e-8 / 1e9
	// driftGrowth is the growth of a bound that the drift causes until the next measurement.
	driftGrowth = 5e-8
	// marginShare is the assumed variation of the fastest exchanges, as a share of their duration.
	marginShare = 1. / 8
	searchSteps = 60
)

// Bound bounds the error of a clock: Error nanoseconds at a time At of its source, and Growth more with every nanosecond. It does
// not contain the asymmetry of the path; see the package comment.
type Bound struct {
	At, Error int64
	Growth    float64
}

// Time returns the bound at time t of the source, in nanoseconds.
func (b Bound) Time(t int64) int64 { return b.Error + int64(b.Growth*float64(max(t-b.At, 0))) }

// Encode returns the error at time t of the source, and the growth, as one word.
func (b Bound) Encode(t int64) uint64 { return pack(b.Time(t), b.Growth) }

// DecodeBound returns the bound that a word encodes, with another time as its At.
func DecodeBound(at int64, w uint64) Bound {
	err, growth := unpack(w)
	return Bound{at, err, growth}
}

// limit bounds the offset of the reference at a time of the source, from above or from below.
type limit struct{ at, offset int64 }

// burstBounds are the tightest limits of a burst.
type burstBounds struct{ upper, lower limit }

// boundSet has the limits of the recent bursts. The offset of the reference, as a function of the time of the source, lies
// between them. It is a straight line but for the drift, so old limits are loosened by what the drift may have changed since.
type boundSet struct {
	fixedRate bool // the rates do not differ and do not drift
	bursts    []burstBounds
}

// add takes the limits of a burst, which must not be empty.
func (s *boundSet) add(burst []Sample) {
	var b burstBounds
	for i, x := range burst {
		upper, lower := limit{x.Sent, x.Remote - x.Sent}, limit{x.Received, x.Remote - x.Received}
		if i == 0 || upper.offset < b.upper.offset {
			b.upper = upper
		}
		if i == 0 || lower.offset > b.lower.offset {
			b.lower = lower
		}
	}
	if s.fixedRate && len(s.bursts) == maxBursts { // an offset that never changes obeys the oldest limits for ever
		oldest, next := s.bursts[0], &s.bursts[1]
		if oldest.upper.offset < next.upper.offset {
			next.upper.offset = oldest.upper.offset
		}
		if oldest.lower.offset > next.lower.offset {
			next.lower.offset = oldest.lower.offset
		}
	}
	s.bursts = appendBounded(s.bursts, b, maxBursts)
}

// between returns the largest offset at time at that lies below all upper limits, and the smallest that lies above all lower
// ones, on lines of a rate. Both are relative to base, so that a float64 represents them to the nanosecond.
func (s *boundSet) between(rate float64, at, base int64) (low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	for i := range s.bursts {
		b := &s.bursts[i]
		age := float64(b.upper.at - at)
		loose := drift / 2 * age * age
		if s.fixedRate {
			loose = 0
		}
		high = min(high, float64(b.upper.offset-base)-rate*age+loose)
		low = max(low, float64(b.lower.offset-base)-rate*float64(b.lower.at-at)-loose)
	}
	return low, high
}

// region is a set of lines: those whose distance from all limits is at least margin.
type region struct {
	set                  *boundSet
	at, base             int64
	margin               float64
	minRate, maxRate     float64
	centreRate           float64 // the rate of the line whose distance from the limits is the largest
	minOffset, maxOffset float64 // at at, relative to base
}

// region returns the lines that are possible, given the fastest duration of a message in one direction: if its duration is the
// same in both directions, no limit can be nearer to the true line. It is false if no line lies between the limits.
func (s *boundSet) region(at, fastest int64) (r region, ok bool) {
	newest := s.bursts[len(s.bursts)-1]
	r = region{set: s, at: at, base: newest.lower.offset}
	var most float64
	for _, limit := range []float64{plausibleRate, maxRate} {
		if s.fixedRate {
			limit = 0
		}
		r.centreRate = maximum(r.width, -limit, limit)
		most = r.width(r.centreRate) / 2
		r.minRate, r.maxRate = -limit, limit
		if most >= 0 {
			break
		}
	}
	r.margin = max(min(most, float64(fastest))*(1-marginShare), 0)
	wide := func(rate float64) bool { return r.width(rate) >= 2*r.margin }
	r.minRate = boundary(wide, r.centreRate, r.minRate)
	r.maxRate = boundary(wide, r.centreRate, r.maxRate)
	low := func(rate float64) float64 { x, _ := s.between(rate, at, r.base); return -x }
	high := func(rate float64) float64 { _, x := s.between(rate, at, r.base); return x }
	r.minOffset = -low(maximum(low, r.minRate, r.maxRate)) + r.margin
	r.maxOffset = high(maximum(high, r.minRate, r.maxRate)) - r.margin
	return r, most >= 0
}

// width returns the distance between the limits for a rate. It is a concave function.
func (r *region) width(rate float64) float64 {
	low, high := r.set.between(rate, r.at, r.base)
	return high - low
}

// uncertainty is the largest difference between a line and the others of its region: offset nanoseconds at a time at, and rate
// more with every nanosecond.
type uncertainty struct {
	at, offset int64
	rate       float64
}

// nearest returns the line of the region that is nearest to l, whose At must be that of the region.
func (r *region) nearest(l Line) (Line, uncertainty) {
	rate := min(max(l.Rate, r.minRate), r.maxRate)
	low, high := r.set.between(rate, r.at, r.base)
	low, high = low+r.margin, high-r.margin
	offset := (low + high) / 2
	if low <= high { // otherwise rounding has made the region empty
		offset = min(max(float64(l.Offset-r.base), low), high)
	}
	u := uncertainty{at: r.at, offset: int64(math.Ceil(max(r.maxOffset-offset, offset-r.minOffset, 0)))}
	u.rate = max(r.maxRate-rate, rate-r.minRate, 0)
	if !r.set.fixedRate {
		u.rate += driftGrowth
	}
	return Line{At: r.at, Offset: r.base + int64(math.Round(offset)), Rate: rate}, u
}

// maximum returns where a concave function of x has its maximum between two values.
func maximum(f func(x float64) float64, from, to float64) float64 {
	for range searchSteps {
		a, b := from+(to-from)/3, to-(to-from)/3
		if f(a) < f(b) {
			from = a
		} else {
			to = b
		}
	}
	return (from + to) / 2
}

// boundary returns the value farthest from inside, on the way to limit, for which a condition holds that holds at inside and on
// one interval around it.
func boundary(holds func(x float64) bool, inside, limit float64) float64 {
	if holds(limit) {
		return limit
	}
	for range searchSteps {
		if middle := (inside + limit) / 2; holds(middle) {
			inside = middle
		} else {
			limit = middle
		}
	}
	return inside
}
