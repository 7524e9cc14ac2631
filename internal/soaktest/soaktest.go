// Package soaktest chooses, in tests, between a sample of the cases and all of them.
//
// `go test ./...` must not take long, so a test of many sizes, seeds or rounds runs a part of them. With IBRUN_SOAK=1 in the
// environment, as in the nightly workflow, it runs all.
//
//	for _, n := range soaktest.Sample(sizes, 3) {
//	for range soaktest.Choose(1000, 40) {
//	r := rand.New(rand.NewPCG(soaktest.Seed(t), 0))
package soaktest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// On reports whether tests run all their cases: whether IBRUN_SOAK is in the environment and not empty.
func On() bool { return os.Getenv("IBRUN_SOAK") != "" }

// Choose returns long if tests run all their cases, and short otherwise.
func Choose[T any](long, short T) T {
	if On() {
		return long
	}
	return short
}

// Sample returns all if tests run all their cases. Otherwise it returns n of them, at equal distances, with the first and the
// last one; only the first one if n is 1; and all if they are not more than n. It panics if n is less than 1.
func Sample[T any](all []T, n int) []T {
	if n < 1 {
		panic("soaktest: a sample of less than one case")
	}
	if On() || n >= len(all) {
		return all
	}
	some := make([]T, n)
	for i := range some {
		some[i] = all[i*(len(all)-1)/max(n-1, 1)]
	}
	return some
}

// Seed returns the seed of the random numbers that a test draws, and logs it. If tests run all their cases it is another one at
// each call; otherwise it is 1, so that a test which has passed passes again. IBRUN_SEED, a number, takes its place.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := ProgramSeed()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d", seed)
	return seed
}

// ProgramSeed is Seed for a program that a test starts.
func ProgramSeed() (uint64, error) {
	if text := os.Getenv("IBRUN_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			return 0, fmt.Errorf("IBRUN_SEED: %w", err)
		}
		return n, nil
	}
	if On() {
		return rand.Uint64(), nil
	}
	return 1, nil
}
