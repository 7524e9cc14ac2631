package cm

import (
	"fmt"
	"strings"
)

// An InfiniBand port is a member of partitions, which the subnet manager writes into its table of
// partition keys. Two queue pairs exchange packets if they are in the same partition, and one of
// them at least is a full member.

const (
	// MaxPartitions is how many partitions of a port are used.
	MaxPartitions = 4
	// FullMember is the bit of a partition key that says that the port is a full member.
	FullMember = 1 << 15
)

// SharedPartition returns the indices of the partition that two ports use with each other: the
// first in which both are full members, or else the first in which one of them is. First means that
// the sum of its positions in both lists is the smallest; among equals the smaller key counts. So
// both ends choose the same. ok is false if there is none.
func SharedPartition(ours, theirs []uint16) (i, j int, ok bool) {
	best := -1
	for a, x := range ours {
		for b, y := range theirs {
			if x&^FullMember != y&^FullMember || (x|y)&FullMember == 0 {
				continue
			}
			rank := (a+b)<<16 | int(x&^FullMember)
			if x&y&FullMember == 0 {
				rank |= 1 << 30
			}
			if best < 0 || rank < best {
				best, i, j, ok = rank, a, b, true
			}
		}
	}
	return i, j, ok
}

// KeyNames returns partition keys as 0x8001, 0x7fff (limited).
func KeyNames(keys []uint16) string {
	var names []string
	for _, k := range keys {
		if k == 0 {
			continue // an empty entry of a table
		}
		name := fmt.Sprintf("0x%04x", k)
		if k&FullMember == 0 {
			name += " (limited)"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
