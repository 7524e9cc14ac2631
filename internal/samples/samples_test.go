package samples

import (
	"math"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	for want, figures := range map[float64][]float64{3: {3}, 2.5: {3, 2}, 2: {9, 1, 2}, 4: {1, 9, 5, 3}} {
		before := slices.Clone(figures)
		if got := Median(figures); got != want || !slices.Equal(before, figures) {
			t.Errorf("median of %v is %g, want %g; left %v", before, got, want, figures)
		}
	}
}

// TestRatio: the interval is that of the textbook, for the logarithms of the ratios.
func TestRatio(t *testing.T) {
	mean, low, high := Ratio([]float64{1, 2, math.E}, []float64{math.E, 2, 1})
	half := 4.303 / math.Sqrt(3) // the logarithms are -1, 0 and 1, whose standard deviation is 1
	for _, c := range [][2]float64{{mean, 1}, {low, math.Exp(-half)}, {high, math.Exp(half)}} {
		if math.Abs(c[0]/c[1]-1) > 1e-9 {
			t.Errorf("%g, [%g %g]: want %g", mean, low, high, c[1])
		}
	}
	if mean, low, high := Ratio([]float64{6, 12}, []float64{3, 6}); mean != 2 || low != 2 || high != 2 {
		t.Errorf("equal ratios: %g, [%g %g], want 2", mean, low, high)
	}
	for freedom, want := range map[int]float64{1: 12.71, 20: 2.086, 21: 2.08, 60: 2.00, 1000: 1.96} {
		if got := studentQuantile(freedom); math.Abs(got-want) > 0.005 {
			t.Errorf("%d degrees of freedom: %g, want %g", freedom, got, want)
		}
	}
}
