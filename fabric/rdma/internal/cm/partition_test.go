package cm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// TestSharedPartition: both ends choose the same partition, a full membership of both if there is
// one.
func TestSharedPartition(t *testing.T) {
	for _, c := range []struct {
		a, b []uint16
		want uint16 // without the membership bit; 0: none
	}{
		{[]uint16{0xffff}, []uint16{0xffff}, 0x7fff},
		{[]uint16{0x8001, 0x7fff}, []uint16{0x8001, 0xffff}, 1},
		{[]uint16{0x8002, 0x8001}, []uint16{0x8001}, 1},
		{[]uint16{0x8001, 0x8002}, []uint16{0x8002, 0x8001}, 1},
		{[]uint16{0x8002, 0x8001}, []uint16{0x8001, 0x8002}, 1},
		// a limited member and a full one
		{[]uint16{0x8003, 0x7fff}, []uint16{0x8004, 0xffff}, 0x7fff},
		// limited members do not reach each other
		{[]uint16{0x8003, 0x7fff}, []uint16{0x8004, 0x7fff}, 0},
		{[]uint16{0x8001}, []uint16{0x8002}, 0},
		// full beats limited, whatever the position
		{[]uint16{0x0001, 0x8002}, []uint16{0x8001, 0x8002}, 2},
		{nil, []uint16{0x8001}, 0},
	} {
		for swap := range 2 {
			a, b := c.a, c.b
			if swap == 1 {
				a, b = b, a
			}
			i, j, ok := SharedPartition(a, b)
			if ok != (c.want != 0) || ok && (a[i]&^FullMember != c.want || b[j]&^FullMember != c.want) {
				t.Errorf("%x and %x: %d, %d, %v; want %#x", a, b, i, j, ok, c.want)
			}
		}
	}
}

// TestSharedPartitionSymmetric: for any two lists, the result at one end is that at the other.
func TestSharedPartitionSymmetric(t *testing.T) {
	seed := soaktest.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	list := func() (keys []uint16) {
		for _, k := range r.Perm(5)[:1+r.IntN(MaxPartitions)] {
			keys = append(keys, uint16(k+1)|uint16(r.IntN(2))<<15)
		}
		return keys
	}
	for range 2000 {
		a, b := list(), list()
		i, j, ok := SharedPartition(a, b)
		y, x, again := SharedPartition(b, a)
		if i != x || j != y || ok != again {
			t.Fatalf("seed %d: %x and %x: %d %d %v, and %d %d %v", seed, a, b, i, j, ok, x, y, again)
		}
		both := slices.ContainsFunc(a, func(k uint16) bool { return k&FullMember != 0 && slices.Contains(b, k) })
		if both && (a[i]&b[j]&FullMember == 0) {
			t.Fatalf("seed %d: %x and %x: %#x, though both are full members of another", seed, a, b, a[i])
		}
	}
}

// TestKeyNames: limited members are marked, and empty entries of a table are left out.
func TestKeyNames(t *testing.T) {
	for want, keys := range map[string][]uint16{
		"none": {0, 0}, "0x8001": {0, 0x8001}, "0xffff, 0x0002 (limited)": {0xffff, 0, 2},
	} {
		if got := KeyNames(keys); got != want {
			t.Errorf("%x: %q, want %q", keys, got, want)
		}
	}
}
