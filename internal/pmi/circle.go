package pmi

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// circle is who belongs to a barrier.
type circle struct {
	key     string // two circles are the same barrier if they have the same key
	tag     int
	members []int // ascending; nil: all ranks
}

// parseCircle reads WORLD, NODE or a list of ranks, each with :tag or without; empty is a barrier of all ranks with no
// group named. nodes tells the node of each rank. self has to belong to it; -1 is nobody. What a key says is the circle
// of that key.
func parseCircle(text string, nodes []int, self int) (circle, error) {
	if text == "" {
		return circle{}, nil
	}
	var c circle
	name, tagText, tagged := strings.Cut(text, ":")
	if tagged {
		var err error
		if c.tag, err = strconv.Atoi(tagText); err != nil {
			return c, errors.New("barrier tag is no number")
		}
	}
	suffix := ":" + strconv.Itoa(c.tag)
	switch name {
	case "WORLD":
		c.key = "WORLD" + suffix
		return c, nil
	case "NODE":
		for rank, node := range nodes {
			if self >= 0 && node == nodes[self] {
				c.members = append(c.members, rank)
			}
		}
	default:
		for word := range strings.SplitSeq(name, ",") {
			rank, err := strconv.Atoi(word)
			if err != nil || rank < 0 || rank >= len(nodes) {
				return c, errors.New("no such rank in this job")
			}
			c.members = append(c.members, rank)
		}
		slices.Sort(c.members)
		c.members = slices.Compact(c.members)
	}
	if self >= 0 && !slices.Contains(c.members, self) {
		return c, errors.New("this rank is not in the group")
	}
	words := make([]string, len(c.members))
	for i, rank := range c.members {
		words[i] = strconv.Itoa(rank)
	}
	c.key = strings.Join(words, ",") + suffix
	return c, nil
}

// on tells which of count nodes have members.
func (c *circle) on(nodes []int, count int) []bool {
	on := make([]bool, count)
	if c.members == nil {
		for i := range on {
			on[i] = true
		}
	}
	for _, rank := range c.members {
		on[nodes[rank]] = true
	}
	return on
}
