package perf

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestHistogramText: a decoded histogram is equal to the encoded one, and every truncated text is an error.
func TestHistogramText(t *testing.T) {
	for _, h := range []*Histogram{{}, HistogramOf(0), HistogramOf(7, time.Microsecond, time.Microsecond, time.Second),
		HistogramOf(2 * MaxDuration)} {
		text, err := h.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got Histogram
		if err := got.UnmarshalText(text); err != nil || got.first != h.first || got.sum != h.sum || got.max != h.max ||
			!slices.Equal(got.counts, h.counts) {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, h)
		}
		for i := range text {
			if err := new(Histogram).UnmarshalText(text[:i]); !errors.Is(err, errHistogramText) {
				t.Errorf("%q: %v", text[:i], err)
			}
		}
	}
	for _, bad := range []string{"", ".", "1 2.", "1 2 3.", "0 1 1 0.", "0 1 1 1 0.", "623 1 1 1 1.", "624 1 1 1.", "-1 1 1 1.",
		"0 1 1 x.", "0 1 1  1.", "0 1 1 1..", "18446744073709551616 1 1 1."} {
		if err := new(Histogram).UnmarshalText([]byte(bad)); !errors.Is(err, errHistogramText) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// FuzzHistogramText: what is accepted can be used.
func FuzzHistogramText(f *testing.F) {
	f.Add([]byte("0 0 0."))
	f.Add([]byte("12 1000 900 1 0 7."))
	f.Add([]byte("623 1 1 1."))
	f.Fuzz(func(t *testing.T, text []byte) {
		var h Histogram
		if h.UnmarshalText(text) != nil {
			return
		}
		for b := range h.Buckets() {
			if b.Lower >= b.Upper {
				t.Errorf("%s has the bucket %+v", text, b)
			}
		}
		h.Merge(HistogramOf(time.Second))
		_, _ = h.Quantile(0.5), h.Since(&h)
		again, err := h.MarshalText()
		if err != nil || new(Histogram).UnmarshalText(again) != nil {
			t.Errorf("%s becomes %s, %v", text, again, err)
		}
	})
}
