package perf

import (
	"iter"
	"math/bits"
	"slices"
	"time"
)

// SubBuckets is the number of buckets for each power of two.
const SubBuckets = 1 << subBits

const (
	subBits = 4
	octaves = 38 // powers of two with log-linear buckets, above SubBuckets buckets of one nanosecond
	buckets = SubBuckets * (1 + octaves)
)

// MaxDuration is the upper end of the last bucket, 73 minutes; longer durations are counted there.
const MaxDuration = time.Duration(1) << (subBits + octaves)

// bucketOf returns the bucket of a duration in nanoseconds.
func bucketOf(ns uint64) int {
	if ns < SubBuckets {
		return int(ns)
	}
	shift := bits.Len64(ns) - 1 - subBits
	return min(shift<<subBits+int(ns>>shift), buckets-1)
}

// bounds returns the bounds of a bucket: lower <= duration < upper, in nanoseconds.
func bounds(bucket int) (lower, upper uint64) {
	if bucket < SubBuckets {
		return uint64(bucket), uint64(bucket) + 1
	}
	shift := bucket>>subBits - 1
	lower = uint64(SubBuckets+bucket&(SubBuckets-1)) << shift
	return lower, lower + 1<<shift
}

// Histogram is a distribution of durations. The zero value and nil are empty. Methods that do not change it are safe for
// concurrent use.
type Histogram struct {
	first  int      // bucket of counts[0]
	counts []uint64 // first and last are not 0
	sum    uint64   // nanoseconds
	max    uint64   // nanoseconds
}

// Bucket is one bucket of a histogram: Lower <= duration < Upper, except the last, which has no upper end.
type Bucket struct {
	Lower, Upper time.Duration
	Count        uint64
}

// newHistogram returns a histogram with a trimmed copy of counts, which has one element for each bucket.
func newHistogram(counts []uint64, sum, longest uint64) *Histogram {
	first := slices.IndexFunc(counts, func(n uint64) bool { return n != 0 })
	if first < 0 {
		return &Histogram{sum: sum, max: longest}
	}
	last := len(counts) - 1
	for counts[last] == 0 {
		last--
	}
	return &Histogram{first: first, counts: slices.Clone(counts[first : last+1]), sum: sum, max: longest}
}

// HistogramOf returns the histogram of some durations, for comparison.
func HistogramOf(durations ...time.Duration) *Histogram {
	var counts [buckets]uint64
	var sum, longest uint64
	for _, d := range durations {
		ns := uint64(max(d, 0))
		counts[bucketOf(ns)]++
		sum += ns
		longest = max(longest, ns)
	}
	return newHistogram(counts[:], sum, longest)
}

// Count returns the number of operations, where sampled ones are counted with their weight.
func (h *Histogram) Count() (n uint64) {
	if h == nil {
		return 0
	}
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Sum returns the total duration, where sampled operations are counted with their weight.
func (h *Histogram) Sum() time.Duration {
	if h == nil {
		return 0
	}
	return time.Duration(h.sum)
}

// Max returns the longest duration that was measured.
func (h *Histogram) Max() time.Duration {
	if h == nil {
		return 0
	}
	return time.Duration(h.max)
}

// Buckets returns the buckets that are not empty, in ascending order.
func (h *Histogram) Buckets() iter.Seq[Bucket] {
	return func(yield func(Bucket) bool) {
		if h == nil {
			return
		}
		for i, n := range h.counts {
			lower, upper := bounds(h.first + i)
			if n != 0 && !yield(Bucket{time.Duration(lower), time.Duration(upper), n}) {
				return
			}
		}
	}
}

// Quantile returns the duration that a share q of all durations do not exceed, 0 <= q <= 1. It is the middle of a bucket, at most
// 1/32 from the recorded value. It is 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	// The smallest recorded value with at least q*n values at or below it.
	rank := uint64(q * float64(n))
	if float64(rank) < q*float64(n) {
		rank++
	}
	rank = min(max(rank, 1), n)
	for b := range h.Buckets() {
		if rank <= b.Count {
			return min((b.Lower+b.Upper)/2, max(h.Max(), b.Lower))
		}
		rank -= b.Count
	}
	return h.Max()
}

// Merge adds the counts of other, which may be nil.
func (h *Histogram) Merge(other *Histogram) {
	if other == nil {
		return
	}
	h.sum += other.sum
	h.max = max(h.max, other.max)
	if len(other.counts) == 0 {
		return
	}
	if len(h.counts) == 0 {
		h.first, h.counts = other.first, slices.Clone(other.counts)
		return
	}
	if other.first < h.first {
		h.counts = slices.Concat(make([]uint64, h.first-other.first), h.counts)
		h.first = other.first
	}
	if more := other.first + len(other.counts) - h.first - len(h.counts); more > 0 {
		h.counts = append(h.counts, make([]uint64, more)...)
	}
	for i, n := range other.counts {
		h.counts[other.first-h.first+i] += n
	}
}

// Since returns the counts since an earlier snapshot of the same histogram, which may be nil. Its Max is that of h.
func (h *Histogram) Since(earlier *Histogram) *Histogram {
	if h == nil {
		return nil
	}
	if earlier == nil {
		earlier = &Histogram{}
	}
	var counts [buckets]uint64
	copy(counts[h.first:], h.counts)
	for i, n := range earlier.counts {
		c := &counts[earlier.first+i]
		*c -= min(*c, n)
	}
	return newHistogram(counts[:], h.sum-min(h.sum, earlier.sum), h.max)
}
