// Package samples summarises figures that were measured several times.
package samples

import (
	"math"
	"slices"
)

// Median returns the middle figure, or the mean of the two in the middle. There must be one at least.
func Median(figures []float64) float64 {
	s := slices.Sorted(slices.Values(figures))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// Ratio returns the geometric mean of the ratios a[i]/b[i], and the interval in which it lies with a probability of 95 % if the
// logarithms of the ratios have a normal distribution. There must be two pairs at least.
func Ratio(a, b []float64) (mean, low, high float64) {
	var sum, squares float64
	n := float64(len(a))
	for i := range a {
		sum += math.Log(a[i] / b[i])
	}
	for i := range a {
		d := math.Log(a[i]/b[i]) - sum/n
		squares += d * d
	}
	half := studentQuantile(len(a)-1) * math.Sqrt(squares/(n-1)/n)
	return math.Exp(sum / n), math.Exp(sum/n - half), math.Exp(sum/n + half)
}

// studentQuantile returns the 97.5 % quantile of Student's distribution.
func studentQuantile(freedom int) float64 {
	table := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
		2.120, 2.110, 2.101, 2.093, 2.086}
	if freedom <= len(table) {
		return table[freedom-1]
	}
	return 1.96 + 2.5/float64(freedom) // within 0.003
}
