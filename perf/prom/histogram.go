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

// NativeSchema is the logarithm of the number of native buckets for each factor of two: there are 2^NativeSchema. A quantile is
// then within 2.2 % of the middle of its bucket in package perf.
const NativeSchema = 4

// The classic buckets end at powers of two nanoseconds, from 2^classicFrom (128 ns) to 2^classicTo (4.3 s). Buckets of package
// perf end there as well, so no count is split.
const (
	classicFrom = 7
	classicTo   = 32
)

// latencyHistogram is a histogram with classic and native buckets. The constructors of the library make only one kind. The
// text formats contain only the classic buckets.
type latencyHistogram struct {
	desc   *prometheus.Desc
	labels []string
	source *perf.Histogram
}

func (l *latencyHistogram) Desc() *prometheus.Desc { return l.desc }

func (l *latencyHistogram) Write(to *dto.Metric) error {
	// The library pairs and sorts the labels.
	m, err := prometheus.NewConstHistogram(l.desc, 0, 0, nil, l.labels...)
	if err != nil {
		return err
	}
	if err := m.Write(to); err != nil {
		return err
	}
	h := to.Histogram
	count, sum := l.source.Count(), l.source.Sum().Seconds()
	h.SampleCount, h.SampleSum = &count, &sum
	h.Bucket = classicBuckets(l.source)
	setNativeBuckets(h, l.source)
	return nil
}

// classicBuckets returns the buckets with fixed bounds. Their counts are cumulative.
func classicBuckets(of *perf.Histogram) []*dto.Bucket {
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

// setNativeBuckets sets the native buckets. Bucket i is from 2^((i-1)/2^NativeSchema) to 2^(i/2^NativeSchema) seconds.
// Consecutive buckets form a span, which has its distance from the span before. Counts are encoded as differences.
func setNativeBuckets(h *dto.Histogram, of *perf.Histogram) {
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
	if len(order) == 0 { // an empty histogram is native if it has a span
		h.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32), Length: new(uint32)}}
	}
}
