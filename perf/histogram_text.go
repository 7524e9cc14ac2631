package perf

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// errHistogramText is returned for text that MarshalText has not written.
var errHistogramText = errors.New("perf: invalid text of a histogram")

// MarshalText encodes the histogram, so that snapshots can be sent to other processes as JSON: the first bucket, the sum and the
// maximum in nanoseconds, and the counts of the buckets, in decimal. A stop is the end, without which the text is truncated.
func (h *Histogram) MarshalText() ([]byte, error) {
	text := strconv.AppendInt(nil, int64(h.first), 10)
	for _, n := range append([]uint64{h.sum, h.max}, h.counts...) {
		text = strconv.AppendUint(append(text, ' '), n, 10)
	}
	return append(text, '.'), nil
}

// UnmarshalText decodes what MarshalText of the same version has encoded. It checks all of it.
func (h *Histogram) UnmarshalText(text []byte) error {
	body, ended := bytes.CutSuffix(text, []byte("."))
	fields := bytes.Split(body, []byte(" "))
	if !ended || len(fields) < 3 || len(fields) > 3+buckets {
		return fmt.Errorf("%w: %d numbers", errHistogramText, len(fields))
	}
	numbers := make([]uint64, len(fields))
	for i, f := range fields {
		n, err := strconv.ParseUint(string(f), 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %w", errHistogramText, err)
		}
		numbers[i] = n
	}
	first, counts := numbers[0], numbers[3:]
	switch n := len(counts); {
	case n == 0 && first != 0, first > uint64(buckets-n), n > 0 && (counts[0] == 0 || counts[n-1] == 0):
		return fmt.Errorf("%w: %d buckets from bucket %d", errHistogramText, n, first)
	}
	*h = Histogram{first: int(first), counts: counts, sum: numbers[1], max: numbers[2]}
	return nil
}
