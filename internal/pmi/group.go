package pmi

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// group is the set of ranks that take part in a barrier.
type group struct {
	key     string // two groups with the same key are the same barrier
	tag     int
	members []int // ascending; nil: all ranks
}

// parseGroup parses WORLD, NODE or a list of ranks, each with or without :tag. An empty text is a barrier of all ranks without a
// group name. nodes has the node of each rank. self must be a member, unless it is -1. parseGroup also accepts the key of a group
// and returns a group with the same key.
func parseGroup(text string, nodes []int, self int) (group, error) {
	if text == "" {
		return group{}, nil
	}
	var g group
	name, tagText, tagged := strings.Cut(text, ":")
	if tagged {
		var err error
		if g.tag, err = strconv.Atoi(tagText); err != nil {
			return g, errors.New("the barrier tag is not a number")
		}
	}
	suffix := ":" + strconv.Itoa(g.tag)
	switch name {
	case "WORLD":
		g.key = "WORLD" + suffix
		return g, nil
	case "NODE":
		for rank, node := range nodes {
			if self >= 0 && node == nodes[self] {
				g.members = append(g.members, rank)
			}
		}
	default:
		for word := range strings.SplitSeq(name, ",") {
			rank, err := strconv.Atoi(word)
			if err != nil || rank < 0 || rank >= len(nodes) {
				return g, errors.New("no such rank in this job")
			}
			g.members = append(g.members, rank)
		}
		slices.Sort(g.members)
		g.members = slices.Compact(g.members)
	}
	if self >= 0 && !slices.Contains(g.members, self) {
		return g, errors.New("this rank is not in the group")
	}
	words := make([]string, len(g.members))
	for i, rank := range g.members {
		words[i] = strconv.Itoa(rank)
	}
	g.key = strings.Join(words, ",") + suffix
	return g, nil
}

// nodesWithMembers reports for each of count nodes whether it has members. A node without ranks has none.
func (g *group) nodesWithMembers(nodes []int, count int) []bool {
	has := make([]bool, count)
	if g.members == nil {
		for _, node := range nodes {
			has[node] = true
		}
	}
	for _, rank := range g.members {
		has[nodes[rank]] = true
	}
	return has
}
