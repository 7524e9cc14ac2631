package coll

import "testing"

// TestSelect wants an algorithm for every case, and a case for every rule.
func TestSelect(t *testing.T) {
	taken := map[Rule]bool{}
	for c := OfBarrier; c <= OfReduceScatter; c++ {
		for i := 1; i <= 73; i++ {
			ranks := i
			if i > 70 {
				ranks = []int{256, 1000, 5000}[i-71]
			}
			for _, commutative := range []bool{false, true} {
				for bytes := 1; bytes < 1<<30; bytes *= 2 {
					r := Choose(nil, c, bytes, ranks, commutative, Messages)
					if r.Algorithm == None || r.Algorithm.family() != Messages {
						t.Fatalf("%v of %d bytes between %d ranks, commutative %v: %+v", c, bytes, ranks, commutative, r)
					}
					taken[r] = true
					messages := r.Algorithm
					for _, f := range []Family{Shared, Direct, TwoLevels, EvenLevels, NodeMemory, EvenLevels | NodeMemory, OversubscribedNodes,
						NUMANodes, Direct | NUMANodes, Oversubscribed, Direct | Oversubscribed} {
						r := Choose(nil, c, bytes, ranks, commutative, f)
						if r.family()&^f != 0 {
							t.Fatalf("%v of %d bytes between %d ranks needs %b, but has %b: %+v", c, bytes, ranks, r.family(), f, r)
						}
						// Ranks of one node that use messages choose again among the rules for messages.
						if f&Shared != 0 && r.Algorithm.family() == Messages && r.Algorithm != messages {
							t.Fatalf("%v of %d bytes between %d ranks: %v is chosen, and then %v", c, bytes, ranks, r.Algorithm, messages)
						}
						taken[r] = true
					}
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
		{OfBcast, 64 << 10, 63, true, ScatterRing},
		{OfBcast, 64 << 10, 64, true, Binomial},
		{OfBcast, 1 << 20, 2000, true, Binomial},
		{OfBcast, 2 << 20, 2000, true, ScatterRing},
		{OfAllreduce, 8, 6, true, RecursiveDoubling},
		{OfAllreduce, 1 << 20, 8, false, Rabenseifner},
		{OfAllreduce, 1 << 20, 6, true, Ring},
		{OfAllreduce, 1 << 20, 6, false, Rabenseifner},
		{OfAllgather, 1 << 10, 6, true, Bruck},
		{OfAllgather, 1 << 10, 8, true, RecursiveDoubling},
		{OfReduceScatter, 8, 2, true, Pairwise},
		{OfReduceScatter, 8, 3, true, RecursiveDoubling},
	} {
		if got := Choose(nil, c.c, c.bytes, c.ranks, c.commutative, Messages).Algorithm; got != c.want {
			t.Errorf("%v of %d bytes between %d ranks, commutative %v: %v, want %v", c.c, c.bytes, c.ranks, c.commutative, got, c.want)
		}
	}
}

// TestConditions: the text of a rule has its limits.
func TestConditions(t *testing.T) {
	for want, r := range map[string]Rule{
		"in all other cases":          {MaxBytes: always},
		"up to 64 bytes":              {MaxBytes: 64},
		"from 3 ranks, up to 8 ranks": {MaxBytes: always, MinRanks: 3, MaxRanks: 8},
		"up to 1 bytes, a power of two of ranks, a commutative operation": {MaxBytes: 1, PowerOfTwo: true, Commutative: true},
		"up to 9 bytes, nodes whose ranks share memory":                   {MaxBytes: 9, Needs: NodeMemory},
		"up to 9 bytes, nodes whose ranks share memory and cores":         {MaxBytes: 9, Needs: OversubscribedNodes},
		"up to 9 bytes, ranks that share memory and cores":                {MaxBytes: 9, Needs: Oversubscribed},
	} {
		if got := r.Conditions(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for c := OfBarrier; c <= OfReduceScatter; c++ {
		if got, ok := ParseCollective(c.String()); got != c || !ok {
			t.Errorf("%v is parsed as %v, %v", c, got, ok)
		}
	}
	if _, ok := ParseCollective("none"); ok {
		t.Error("there is a collective of the name none")
	}
}
