package pmi

import (
	"fmt"
	"strconv"
	"strings"
)

// mappingKey is the key under which launchers store which ranks share a node.
const mappingKey = "PMI_process_mapping"

// parseMapping returns the node of each of size ranks. The text is
//
//	(vector,(node,nodes,ranks),...)
//
// where a block means that many ranks on each of that many nodes, beginning with node. MPICH also writes a node number alone
// for (node,1,1), and [...]xN for N repetitions of a list. If the text has too few ranks, it is continued from its first block
// on node 0.
func parseMapping(text string, size int) ([]int, error) {
	p := mappingParser{rest: text, size: size, nodes: make([]int, 0, size), wrap: -1}
	p.list()
	if p.err == nil && p.rest != "" {
		p.fail("has text after its end")
	}
	wrap := max(p.wrap, 0)
	period := len(p.nodes) - wrap
	if p.err == nil && period == 0 && len(p.nodes) < size {
		p.fail("has no ranks")
	}
	if p.err != nil {
		return nil, fmt.Errorf("pmi: process mapping %.60q: %w", text, p.err)
	}
	for i := len(p.nodes); i < size; i++ {
		p.nodes = append(p.nodes, p.nodes[i-period])
	}
	return p.nodes, nil
}

// mappingParser parses a mapping. It stops at the first error.
type mappingParser struct {
	rest  string
	size  int
	nodes []int // at most size
	wrap  int   // index in nodes where the first block on node 0 begins, or -1
	err   error
}

func (p *mappingParser) fail(why string) {
	if p.err == nil {
		p.err = fmt.Errorf("%s, before %.20q", why, p.rest)
	}
	p.rest = ""
}

// skip consumes s if the rest begins with it, and reports whether it did.
func (p *mappingParser) skip(s string) bool {
	rest, ok := strings.CutPrefix(p.rest, s)
	p.rest = rest
	return ok
}

func (p *mappingParser) expect(s string) {
	if !p.skip(s) {
		p.fail("no " + s)
	}
}

// number consumes a decimal number. It must be below 2^30, so that sums do not overflow.
func (p *mappingParser) number() int {
	end := 0
	for end < len(p.rest) && end < 10 && p.rest[end] >= '0' && p.rest[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(p.rest[:end])
	if err != nil || n >= 1<<30 {
		p.fail("no number")
		return 0
	}
	p.rest = p.rest[end:]
	return n
}

func (p *mappingParser) list() {
	p.expect("(vector")
	for p.err == nil && !p.skip(")") {
		p.expect(",")
		if !p.skip("[") {
			p.block()
			continue
		}
		start := len(p.nodes)
		p.block()
		for p.skip(",") {
			p.block()
		}
		p.expect("]x")
		p.repeat(start, p.number())
	}
}

// block consumes (node,nodes,ranks) or node.
func (p *mappingParser) block() {
	first, count, each := 0, 1, 1
	if p.skip("(") {
		first = p.number()
		p.expect(",")
		count = p.number()
		p.expect(",")
		each = p.number()
		p.expect(")")
	} else {
		first = p.number()
	}
	if p.err != nil {
		return
	}
	if first == 0 && p.wrap < 0 {
		p.wrap = len(p.nodes)
	}
	if each == 0 {
		return
	}
	for i := 0; i < count*each && len(p.nodes) < p.size; i++ {
		p.nodes = append(p.nodes, first+i/each)
	}
}

// repeat repeats the nodes from start on, so that they are there the given number of times.
func (p *mappingParser) repeat(start, times int) {
	if times == 0 {
		p.fail("list is repeated zero times")
	}
	period := len(p.nodes) - start
	for i := 0; i < period*(times-1) && len(p.nodes) < p.size; i++ {
		p.nodes = append(p.nodes, p.nodes[start+i])
	}
}
