package coordinator

import (
	"fmt"
	"strings"
)

// Layout describes which ranks run on which node.
type Layout struct {
	NodeOf  []int   // the node of each rank
	RanksOn [][]int // the ranks of each node, ascending
}

// NewLayout returns the layout in which rank i runs on node nodeOf[i].
func NewLayout(at []int, nodes int) Layout {
	l := Layout{at, make([][]int, nodes)}
	for rank, node := range at {
		l.RanksOn[node] = append(l.RanksOn[node], rank)
	}
	return l
}

// Mapping returns the layout in the format of PMI_process_mapping: blocks of ranks on consecutive nodes, equally many on each.
// If the layout repeats from rank 0 on node 0, the pattern is written once.
func (l Layout) Mapping() string {
	period := len(l.NodeOf)
	if l.NodeOf[0] == 0 {
		period = repeats(l.NodeOf)
	}
	type block struct{ node, nodes, each int }
	var blocks []block
	for i := 0; i < period; {
		each := 1
		for i+each < period && l.NodeOf[i+each] == l.NodeOf[i] {
			each++
		}
		last := len(blocks) - 1
		if last >= 0 && blocks[last].each == each && blocks[last].node+blocks[last].nodes == l.NodeOf[i] {
			blocks[last].nodes++
		} else {
			blocks = append(blocks, block{l.NodeOf[i], 1, each})
		}
		i += each
	}
	var b strings.Builder
	for _, k := range blocks {
		fmt.Fprintf(&b, ",(%d,%d,%d)", k.node, k.nodes, k.each)
	}
	return "(vector" + b.String() + ")"
}

// repeats returns the length of the shortest prefix of list whose repetition begins with list.
func repeats(list []int) int {
	border := make([]int, len(list)) // for each prefix, the length of the longest shorter prefix with which it also ends
	for i := 1; i < len(list); i++ {
		n := border[i-1]
		for n > 0 && list[n] != list[i] {
			n = border[n-1]
		}
		if list[n] == list[i] {
			n++
		}
		border[i] = n
	}
	return len(list) - border[len(list)-1]
}
