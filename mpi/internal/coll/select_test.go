package coll

import (
	"strings"
	"testing"
)

// TestSelect wants an algorithm for every case, and a case for every rule.
func TestSelect(t *testing.T) {
	taken := map[Rule]bool{}
	for c := OfBarrier; c <= OfReduceScatter; c++ {
		for ranks := 1; ranks <= 70; ranks++ {
			for _, commutative := range []bool{false, true} {
				for bytes := 1; bytes < 1<<30; bytes *= 2 {
					r := firstRule(c, bytes, ranks, commutative, messages)
					if r.Algorithm == None || r.Algorithm.family() != messages {
						t.Fatalf("%v of %d bytes between %d ranks, commutative %v: %+v", c, bytes, ranks, commutative, r)
					}
					taken[r] = true
					taken[firstRule(c, bytes, ranks, commutative, shared)] = true
					taken[firstRule(c, bytes, ranks, commutative, direct)] = true
				}
			}
		}
	}
	for _, r := range rules {
		if !taken[r] {
			t.Errorf("%+v is never taken", r)
		}
	}
}

func TestSelectExamples(t *testing.T) {
	for _, c := range []struct {
		c            Collective
		bytes, ranks int
		commutative  bool
		want         Algorithm
	}{
		{OfBcast, 8, 64, true, Binomial},
		{OfBcast, 1 << 20, 64, true, ScatterRing},
		{OfBcast, 1 << 20, 4, true, Binomial},
		{OfAllreduce, 8, 6, true, RecursiveDoubling},
		{OfAllreduce, 1 << 20, 8, false, Rabenseifner},
		{OfAllreduce, 1 << 20, 6, true, Ring},
		{OfAllreduce, 1 << 20, 6, false, Rabenseifner},
		{OfAllgather, 1 << 10, 6, true, Bruck},
		{OfAllgather, 1 << 10, 8, true, RecursiveDoubling},
	} {
		if got := selectAlgorithm(c.c, c.bytes, c.ranks, c.commutative); got != c.want {
			t.Errorf("%v of %d bytes between %d ranks, commutative %v: %v, want %v", c.c, c.bytes, c.ranks, c.commutative, got, c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	text := Explain()
	if n := strings.Count(text, "\n"); n != len(rules)+1 {
		t.Errorf("%d lines for %d rules", n, len(rules))
	}
	for _, r := range Rules() {
		if !strings.Contains(text, r.Collective.String()) || !strings.Contains(text, r.Algorithm.String()) {
			t.Errorf("%v by %v is not in the text", r.Collective, r.Algorithm)
		}
	}
}
