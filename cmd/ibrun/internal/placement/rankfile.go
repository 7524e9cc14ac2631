package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inputfile"
	"github.com/ibrun/ibrun/hw"
)

// RankFile places each rank individually. Its lines have the syntax of Open MPI:
//
//	rank 0=node1 slot=0-3     # cores 0 to 3 of the host
//	rank 1=node2 slot=1:0,2   # cores 0 and 2 of package 1
//	rank 2=+n0   slot=*       # all cores of the first node of the job
//
// Cores and packages are numbered from 0 in the order of the machine; only usable ones are counted.
type RankFile struct {
	Name  string // of the file, for messages
	Lines []RankLine
}

// RankLine is one line that places a rank.
type RankLine struct {
	Rank    int
	Host    string // its name; empty: Node is its number
	Node    int    // +n0, counted from 0
	Package int    // -1: cores are those of the node
	Cores   []int  // nil for all

	Line       int // in the file, from 1
	RankColumn int // the column of Rank in the line, from 1
	HostColumn int // that of Host or Node
	SlotColumn int // that of Package or Cores
}

// maxCores bounds the number of cores in one line.
const maxCores = 1 << 16

// ParseRankFile reads a rank file. The error is a [*inputfile.SyntaxError].
func ParseRankFile(name, text string) (*RankFile, error) {
	f := &RankFile{Name: name}
	first := map[int]int{} // rank: the line that places it
	number := 0
	for line := range strings.Lines(text) {
		number++
		s := &scanner{file: name, line: number, text: strings.TrimRight(line, "\r\n")}
		if i := strings.IndexByte(s.text, '#'); i >= 0 {
			s.text = s.text[:i]
		}
		s.skipBlanks()
		if s.remaining() == "" {
			continue
		}
		l, err := s.rankLine()
		if err != nil {
			return nil, err
		}
		if before, ok := first[l.Rank]; ok {
			return nil, f.errorAt(l, l.RankColumn, "rank %d is already placed in line %d", l.Rank, before)
		}
		first[l.Rank] = number
		f.Lines = append(f.Lines, l)
	}
	return f, nil
}

// scanner reads one line.
type scanner struct {
	file   string
	line   int
	text   string
	offset int // bytes of text that are read
}

func (s *scanner) fail(at int, format string, args ...any) error {
	return &inputfile.SyntaxError{Source: s.file, Line: s.line, Column: at + 1, Message: fmt.Sprintf(format, args...)}
}

func (s *scanner) remaining() string { return s.text[s.offset:] }

func (s *scanner) skipBlanks() {
	s.offset = len(s.text) - len(strings.TrimLeft(s.remaining(), " \t"))
}

// take consumes word if it is next, and reports whether it was.
func (s *scanner) take(word string) bool {
	if !strings.HasPrefix(s.remaining(), word) {
		return false
	}
	s.offset += len(word)
	return true
}

// until consumes the text up to one of the characters of stop, or to the end, and returns it.
func (s *scanner) until(stop string) string {
	rest := s.remaining()
	if i := strings.IndexAny(rest, stop); i >= 0 {
		rest = rest[:i]
	}
	s.offset += len(rest)
	return rest
}

// number parses a number that is not negative.
func (s *scanner) number(what string) (int, error) {
	at := s.offset
	digits := s.until(" \t=:,-;")
	n, err := strconv.ParseUint(digits, 10, 20)
	if err != nil {
		return 0, s.fail(at, "invalid %s number %q", what, digits)
	}
	return int(n), nil
}

// rankLine parses "rank 0=host slot=1:0-2".
func (s *scanner) rankLine() (l RankLine, err error) {
	l.Line = s.line
	if !s.take("rank") || strings.TrimLeft(s.remaining(), " \t") == s.remaining() {
		return l, s.fail(s.offset, "want a line such as: rank 0=host slot=0-3")
	}
	s.skipBlanks()
	l.RankColumn = s.offset + 1
	if l.Rank, err = s.number("rank"); err != nil {
		return l, err
	}
	s.skipBlanks()
	if !s.take("=") {
		return l, s.fail(s.offset, "expected = and a host after the rank")
	}
	s.skipBlanks()
	at := s.offset
	l.HostColumn = at + 1
	if s.take("+n") {
		if l.Node, err = s.number("node"); err != nil {
			return l, err
		}
	} else if l.Host = s.until(" \t"); l.Host == "" {
		return l, s.fail(at, "expected a host: its name, or +n0 for the first node")
	}
	s.skipBlanks()
	if !s.take("slot") {
		return l, s.fail(s.offset, "expected slot= and cores after the host")
	}
	s.skipBlanks()
	if !s.take("=") {
		return l, s.fail(s.offset, "expected = and cores after slot")
	}
	s.skipBlanks()
	if err := s.slot(&l); err != nil {
		return l, err
	}
	s.skipBlanks()
	if s.remaining() != "" {
		return l, s.fail(s.offset, "unexpected %q", s.remaining())
	}
	return l, nil
}

// slot parses 0-3,8 or *, with an optional PACKAGE: before it.
func (s *scanner) slot(l *RankLine) error {
	l.Package, l.SlotColumn = -1, s.offset+1
	if head, _, found := strings.Cut(s.remaining(), ":"); found && !strings.ContainsAny(head, " \t") {
		n, err := s.number("package")
		if err != nil {
			return err
		}
		if !s.take(":") {
			return s.fail(s.offset, "expected one package number")
		}
		l.Package = n
	}
	if s.take("*") {
		return nil
	}
	start := s.offset
	for {
		at := s.offset
		low, err := s.number("core")
		if err != nil {
			return err
		}
		high := low
		if s.take("-") {
			if high, err = s.number("core"); err != nil {
				return err
			}
		}
		switch {
		case high < low:
			return s.fail(at, "the range %d-%d goes backwards", low, high)
		case high-low >= maxCores || len(l.Cores) >= maxCores:
			return s.fail(at, "more than %d cores", maxCores)
		}
		for core := low; core <= high; core++ {
			l.Cores = append(l.Cores, core)
		}
		if !s.take(",") {
			break
		}
	}
	slices.Sort(l.Cores)
	for i, core := range l.Cores[1:] {
		if core == l.Cores[i] {
			return s.fail(start, "core %d is listed twice", core)
		}
	}
	return nil
}

// errorAt returns an error at a column of a line that is valid, but does not fit the machines.
func (f *RankFile) errorAt(l RankLine, column int, format string, args ...any) error {
	return &inputfile.SyntaxError{Source: f.Name, Line: l.Line, Column: max(column, 1), Message: fmt.Sprintf(format, args...)}
}

// hostsOfRanks returns RANK=HOST for each line, ascending by rank.
func (f *RankFile) hostsOfRanks() []string {
	lines := slices.SortedFunc(slices.Values(f.Lines), func(a, b RankLine) int { return cmp.Compare(a.Rank, b.Rank) })
	words := make([]string, len(lines))
	for i, l := range lines {
		words[i] = fmt.Sprintf("%d=%s", l.Rank, cmp.Or(l.Host, fmt.Sprintf("+n%d", l.Node)))
	}
	return words
}

// nodesOfRanks returns the index of the node of each rank.
func (f *RankFile) nodesOfRanks(names []string, ranks int) ([]int, error) {
	nodes := make([]int, ranks)
	for i := range nodes {
		nodes[i] = -1
	}
	for _, l := range f.Lines {
		node := l.Node
		if l.Host != "" {
			node = slices.Index(names, l.Host)
		}
		switch {
		case l.Rank >= ranks:
			return nil, f.errorAt(l, l.RankColumn, "rank %d is out of range: the job has ranks 0 to %d", l.Rank, ranks-1)
		case node < 0:
			return nil, f.errorAt(l, l.HostColumn, "unknown node %s: the nodes of the job are %s", l.Host, strings.Join(names, ", "))
		case node >= len(names):
			return nil, f.errorAt(l, l.HostColumn, "unknown node +n%d: the last node of the job is +n%d", node, len(names)-1)
		}
		nodes[l.Rank] = node
	}
	if missing := slices.Index(nodes, -1); missing >= 0 {
		return nil, fmt.Errorf("%w: %s does not place rank %d", ErrNoSlots, f.Name, missing)
	}
	return nodes, nil
}

// assignFromFile assigns to each rank the cores of its line in the rank file.
func (n *node) assignFromFile(f *RankFile, ranks []int, d *assignment) error {
	packages, err := n.objects(&Policy{Map: Package})
	if err != nil {
		packages = nil // the loop below rejects lines that name a package
	}
	lines := map[int]RankLine{}
	for _, l := range f.Lines {
		lines[l.Rank] = l
	}
	owner := map[int]int{} // PU: rank
	for _, rank := range ranks {
		l, cores, what := lines[rank], n.cores, n.name
		if l.Package >= len(packages) {
			return f.errorAt(l, l.SlotColumn, "package %d is out of range: %s has %d usable packages, numbered from 0",
				l.Package, n.name, len(packages))
		}
		if l.Package >= 0 {
			cores, what = packages[l.Package].cores, fmt.Sprintf("package %d of %s", l.Package, n.name)
		}
		chosen := cores
		if l.Cores != nil {
			chosen = nil
			for _, core := range l.Cores {
				if core >= len(cores) {
					return f.errorAt(l, l.SlotColumn, "core %d is out of range: %s has %d usable cores, numbered from 0", core, what, len(cores))
				}
				chosen = append(chosen, cores[core])
			}
		}
		pus := sortedPUs(chosen)
		d.pus = append(d.pus, pus)
		for _, pu := range pus {
			if other, taken := owner[pu]; taken {
				d.notes = append(d.notes, fmt.Sprintf("ranks %d and %d share PUs %s", other, rank, hw.FormatList(pus)))
				break
			}
			owner[pu] = rank
		}
	}
	return nil
}
