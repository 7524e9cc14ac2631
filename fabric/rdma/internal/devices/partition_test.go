package devices

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// keysOf returns the keys of partitions, with their indices.
func keysOf(list []partition) (text string) {
	for _, p := range list {
		text += fmt.Sprintf("%#x@%d ", p.key, p.index)
	}
	return strings.TrimSpace(text)
}

// TestChoosePartitions: full memberships come before limited ones, empty entries and repeated
// partitions are left out, and the list is bounded.
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

func TestPartitionError(t *testing.T) {
	err := error(&PartitionError{Here: []uint16{0x8001, 0x7fff}, There: []uint16{0x8002}})
	if !errors.Is(err, fabric.ErrNotSupported) || !strings.Contains(err.Error(), "0x8001, 0x7fff (limited); the peer in 0x8002") {
		t.Error(err)
	}
}
