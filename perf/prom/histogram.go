package prom

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ibrun/ibrun/perf"
)

// NativeSchema tells how many native buckets there are to a factor of two: 2^NativeSchema. A quantile is then at most 2.2 %
// from the middle of the bucket of package perf that it was in.
const NativeSchema = 4

// The classic buckets end at powers of two nanoseconds, from 2^classicFrom (128 ns) to 2^classicTo (4.3 s): these are bounds of
// buckets of package perf, too.
const (
	classicFrom = 7
	classicTo   = 32
)

// latencies is a histogram with classic and native buckets. The constructors of the library make one kind or the other; in the
// text formats it writes the classic ones only.
type latencies struct {
	desc   *prometheus.Desc
	labels []string
	of     *perf.Histogram
}

func (l *latencies) Desc() *prometheus.Desc { return l.desc }

func (l *latencies) Write(to *dto.Metric) error {
	// The library knows how labels are paired and ordered.
	m, err := prometheus.NewConstHistogram(l.desc, 0, 0, nil, l.labels...)
	if err != nil {
		return err
	}
	if err := m.Write(to); err != nil {
		return err
	}
	h := to.Histogram
	count, sum := l.of.Count(), l.of.Sum().Seconds()
	h.SampleCount, h.SampleSum = &count, &sum
	h.Bucket = classic(l.of)
	native(h, l.of)
	return nil
}

// classic are the buckets with bounds, which are cumulative.
func classic(of *perf.Histogram) []*dto.Bucket {
	var all []*dto.Bucket
	for e := classicFrom; e <= classicTo; e++ {
		bound := (time.Duration(1) << e).Seconds()
		all = append(all, &dto.Bucket{UpperBound: &bound, CumulativeCount: new(uint64)})
	}
	for b := range of.Buckets() {
		for e := max(bits.Len64(uint64(b.Upper-1)), classicFrom); e <= classicTo; e++ {
			*all[e-classicFrom].CumulativeCount += b.Count
		}
	}
	return all
}

// native fills in the buckets without bounds: those from 2^((i-1)/2^NativeSchema) seconds to 2^(i/2^NativeSchema), as runs of
// neighbours, each with its distance from the one before, and with the differences of their counts.
func native(h *dto.Histogram, of *perf.Histogram) {
	schema, threshold, zero := int32(NativeSchema), 0.0, uint64(0)
	counts := map[int32]uint64{}
	for b := range of.Buckets() {
		middle := (b.Lower + b.Upper - 1).Seconds() / 2
		if middle == 0 {
			zero += b.Count
			continue
		}
		counts[int32(math.Ceil(math.Log2(middle)*(1<<NativeSchema)))] += b.Count
	}
	h.Schema, h.ZeroThreshold, h.ZeroCount = &schema, &threshold, &zero
	order := slices.Sorted(maps.Keys(counts))
	var next int32
	var before int64
	for n, i := range order {
		if n == 0 || i != next {
			offset := i - next
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: &offset, Length: new(uint32)})
		}
		*h.PositiveSpan[len(h.PositiveSpan)-1].Length++
		delta := int64(counts[i]) - before
		h.PositiveDelta = append(h.PositiveDelta, delta)
		before, next = int64(counts[i]), i+1
	}
	if len(order) == 0 { // a span says that the histogram is native, though it is empty
		h.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32), Length: new(uint32)}}
	}
}
