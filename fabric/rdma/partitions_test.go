package rdma

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/soaktest"
)

// keysOf returns the keys of partitions, with their indices.
func keysOf(list []partition) (text string) {
	for _, p := range list {
		text += fmt.Sprintf("%#x@%d ", p.key, p.index)
	}
	return strings.TrimSpace(text)
}

// TestChoosePartitions: full memberships come before limited ones, empty entries and repeated partitions are left out, and the
// list is bounded.
func TestChoosePartitions(t *testing.T) {
	for _, c := range []struct {
		table partitionTable
		only  uint16
		want  string
	}{
		{partitionTable{0xffff}, 0, "0xffff@0"},
		{partitionTable{0x7fff, 0x8001}, 0, "0x8001@1 0x7fff@0"},
		{partitionTable{0x7fff, 0, 0x8002, 0xffff, 0x8002, 0x8000}, 0, "0x8002@2 0xffff@3"},
		{partitionTable{0x7fff, 1, 0x8002, 3, 0x8004, 5}, 0, "0x8002@2 0x8004@4 0x7fff@0 0x1@1"},
		{partitionTable{0xffff, 0x8001, 2}, 0x0001, "0x8001@1"},
		{partitionTable{0xffff, 0x8001, 2}, 0x8002, "0x2@2"},
		{partitionTable{0xffff}, 0x8002, ""},
		{nil, 0, ""},
	} {
		if got := keysOf(c.table.choose(c.only)); got != c.want {
			t.Errorf("%x, only %#x: %s, want %s", c.table, c.only, got, c.want)
		}
	}
}

// TestSharedPartition: both ends choose the same partition, a full membership of both if there is one.
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
		{[]uint16{0x8003, 0x7fff}, []uint16{0x8004, 0xffff}, 0x7fff}, // a limited member and a full one
		{[]uint16{0x8003, 0x7fff}, []uint16{0x8004, 0x7fff}, 0},      // limited members do not reach each other
		{[]uint16{0x8001}, []uint16{0x8002}, 0},
		{[]uint16{0x0001, 0x8002}, []uint16{0x8001, 0x8002}, 2}, // full beats limited, whatever the position
		{nil, []uint16{0x8001}, 0},
	} {
		for swap := range 2 {
			a, b := c.a, c.b
			if swap == 1 {
				a, b = b, a
			}
			i, j, ok := sharedPartition(a, b)
			if ok != (c.want != 0) || ok && (a[i]&^fullMember != c.want || b[j]&^fullMember != c.want) {
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
		for _, k := range r.Perm(5)[:1+r.IntN(maxPartitions)] {
			keys = append(keys, uint16(k+1)|uint16(r.IntN(2))<<15)
		}
		return keys
	}
	for range 2000 {
		a, b := list(), list()
		i, j, ok := sharedPartition(a, b)
		y, x, again := sharedPartition(b, a)
		if i != x || j != y || ok != again {
			t.Fatalf("seed %d: %x and %x: %d %d %v, and %d %d %v", seed, a, b, i, j, ok, x, y, again)
		}
		both := slices.ContainsFunc(a, func(k uint16) bool { return k&fullMember != 0 && slices.Contains(b, k) })
		if both && (a[i]&b[j]&fullMember == 0) {
			t.Fatalf("seed %d: %x and %x: %#x, though both are full members of another", seed, a, b, a[i])
		}
	}
}

func TestPartitionError(t *testing.T) {
	err := error(&PartitionError{Here: []uint16{0x8001, 0x7fff}, There: []uint16{0x8002}})
	if !errors.Is(err, fabric.ErrNotSupported) || !strings.Contains(err.Error(), "0x8001, 0x7fff (limited); the peer in 0x8002") {
		t.Error(err)
	}
}
