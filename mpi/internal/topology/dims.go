package topology

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxRanks is the largest number of ranks that Balance divides: ranks are 32-bit numbers.
const MaxRanks = math.MaxInt32

var errDims = errors.New("the number of ranks is not the product of the dimensions")

// Balance returns dims with its zeros replaced, so that the product is n. The new dimensions are as equal as possible: the
// difference between the largest and the smallest is the least, and then their sum. They are in nonincreasing order.
func Balance(n int, dims []int) ([]int, error) {
	dims = slices.Clone(dims)
	rest, free := n, 0
	for i, d := range dims {
		switch {
		case d < 0:
			return nil, fmt.Errorf("dimension %d is negative: %d", i, d)
		case d == 0:
			free++
		case rest%d != 0:
			return nil, fmt.Errorf("%w: %d ranks, dimensions %v", errDims, n, dims)
		default:
			rest /= d
		}
	}
	if free == 0 && rest != 1 {
		return nil, fmt.Errorf("%w: %d ranks, dimensions %v", errDims, n, dims)
	}
	found := factorize(rest, free)
	for i, d := range dims {
		if d == 0 {
			dims[i], found = found[0], found[1:]
		}
	}
	return dims, nil
}

// factorize returns the k most equal factors of n, the largest first.
func factorize(n, k int) []int {
	if k == 0 {
		return nil
	}
	s := &factorSearch{divisors: divisors(n), spread: math.MaxInt}
	for _, d := range s.divisors[1:] {
		if !slices.ContainsFunc(s.primes, func(p int) bool { return d%p == 0 }) {
			s.primes = append(s.primes, d)
		}
	}
	s.search(n, make([]int, 0, k), k)
	return s.best
}

// divisors returns the divisors of n, ascending. n has at most 31 bits, and so at most 1536 divisors.
func divisors(n int) (all []int) {
	for d := 1; d*d <= n; d++ {
		if n%d == 0 {
			all = append(all, d)
			if d*d != n {
				all = append(all, n/d)
			}
		}
	}
	slices.Sort(all)
	return all
}

// factorSearch looks for the factors with the least spread, and among those for the least sum.
type factorSearch struct {
	divisors    []int
	primes      []int // among the divisors, ascending
	best        []int
	spread, sum int
}

// search extends chosen, which is in nonincreasing order, by k factors of n.
func (s *factorSearch) search(n int, chosen []int, k int) {
	if k == 0 {
		if n == 1 {
			s.offer(chosen)
		}
		return
	}
	for _, d := range s.divisors {
		switch {
		case len(chosen) > 0 && d > chosen[len(chosen)-1]:
			return
		case !powerAtLeast(d, k, n): // the other factors are at most d
			continue
		case !s.canImprove(d, n, chosen, k):
			return
		}
		if n%d == 0 && s.smooth(n, d) {
			s.search(n/d, append(chosen, d), k-1)
		}
	}
}

// smooth reports whether n has no prime factor above d, without which it is not a product of factors up to d.
func (s *factorSearch) smooth(n, d int) bool {
	for _, p := range slices.Backward(s.primes) {
		if p <= d {
			break
		}
		if n%p == 0 {
			return false
		}
	}
	return true
}

// canImprove reports whether factors of n of which the largest is d can still have a spread that is not above the best one. The
// smallest factor is at most the k-th root of n.
func (s *factorSearch) canImprove(d, n int, chosen []int, k int) bool {
	largest := d
	if len(chosen) > 0 {
		largest = chosen[0]
	}
	if s.best == nil || largest-s.spread <= 1 {
		return true
	}
	return !powerAbove(largest-s.spread, k, n)
}

// offer replaces the best factors if these are better.
func (s *factorSearch) offer(all []int) {
	spread, sum := all[0]-all[len(all)-1], 0
	for _, d := range all {
		sum += d
	}
	if spread < s.spread || spread == s.spread && sum < s.sum {
		s.best, s.spread, s.sum = slices.Clone(all), spread, sum
	}
}

// powerAtLeast reports whether the k-th power of d is at least n.
func powerAtLeast(d, k, n int) bool { return power(d, k, n) >= n }

// powerAbove reports whether the k-th power of d is above n.
func powerAbove(d, k, n int) bool { return power(d, k, n) > n }

// power returns the k-th power of d, or a number above limit if it is above it. d and limit have at most 31 bits.
func power(d, k, limit int) int {
	p := 1
	for range k {
		if p *= d; p > limit || d == 1 {
			break
		}
	}
	return p
}
