package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// RankFile places ranks one by one. Its lines are those of Open MPI:
//
//	rank 0=node1 slot=0-3     # cores 0 to 3 of the host
//	rank 1=node2 slot=1:0,2   # cores 0 and 2 of package 1
//	rank 2=+n0   slot=*       # all cores of the first node of the job
//
// Cores and packages are counted from 0 in the order of the machine, and only those that may be used.
type RankFile struct {
	Name  string // of the file, for messages
	Lines []RankLine
}

// RankLine is one line that places a rank.
type RankLine struct {
	Rank    int
	Host    string // its name; empty: Node says which
	Node    int    // +n0, counted from 0
	Package int    // -1: cores are those of the node
	Cores   []int  // nil for all

	Line  int // in the file, from 1
	Start int // the column of Rank in the line, from 1
	On    int // that of Host or Node
	Slot  int // that of Package or Cores
}

// SyntaxError is a place in a rank file that cannot be understood.
type SyntaxError struct {
	File         string
	Line, Column int // from 1; the column counts bytes
	Message      string
}

// Error is FILE:LINE:COLUMN: MESSAGE.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// maxCores bounds the cores that one line names.
const maxCores = 1 << 16

// ParseRankFile reads a rank file. The error is a [*SyntaxError].
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
		s.blanks()
		if s.rest() == "" {
			continue
		}
		l, err := s.rankLine()
		if err != nil {
			return nil, err
		}
		if before, ok := first[l.Rank]; ok {
			return nil, f.at(l, l.Start, "rank %d was placed in line %d already", l.Rank, before)
		}
		first[l.Rank] = number
		f.Lines = append(f.Lines, l)
	}
	return f, nil
}

// scanner reads one line.
type scanner struct {
	file string
	line int
	text string
	at   int // bytes of text that are read
}

func (s *scanner) fail(at int, format string, args ...any) error {
	return &SyntaxError{s.file, s.line, at + 1, fmt.Sprintf(format, args...)}
}

func (s *scanner) rest() string { return s.text[s.at:] }

func (s *scanner) blanks() {
	s.at = len(s.text) - len(strings.TrimLeft(s.rest(), " \t"))
}

// take reads this text, if it comes next.
func (s *scanner) take(word string) bool {
	if !strings.HasPrefix(s.rest(), word) {
		return false
	}
	s.at += len(word)
	return true
}

// until reads up to one of these characters, or to the end.
func (s *scanner) until(stop string) string {
	rest := s.rest()
	if i := strings.IndexAny(rest, stop); i >= 0 {
		rest = rest[:i]
	}
	s.at += len(rest)
	return rest
}

// number reads a number that is not negative.
func (s *scanner) number(what string) (int, error) {
	at := s.at
	digits := s.until(" \t=:,-;")
	n, err := strconv.ParseUint(digits, 10, 20)
	if err != nil {
		return 0, s.fail(at, "%q is no number of a %s", digits, what)
	}
	return int(n), nil
}

// rankLine reads "rank 0=host slot=1:0-2".
func (s *scanner) rankLine() (l RankLine, err error) {
	l.Line = s.line
	if !s.take("rank") || strings.TrimLeft(s.rest(), " \t") == s.rest() {
		return l, s.fail(s.at, "a line is written: rank 0=host slot=0-3")
	}
	s.blanks()
	l.Start = s.at + 1
	if l.Rank, err = s.number("rank"); err != nil {
		return l, err
	}
	s.blanks()
	if !s.take("=") {
		return l, s.fail(s.at, "= and a host are missing after the rank")
	}
	s.blanks()
	at := s.at
	l.On = at + 1
	if s.take("+n") {
		if l.Node, err = s.number("node"); err != nil {
			return l, err
		}
	} else if l.Host = s.until(" \t"); l.Host == "" {
		return l, s.fail(at, "a host is missing: its name, or +n0 for the first node")
	}
	s.blanks()
	if !s.take("slot") {
		return l, s.fail(s.at, "slot= and cores are missing after the host")
	}
	s.blanks()
	if !s.take("=") {
		return l, s.fail(s.at, "= and cores are missing after slot")
	}
	s.blanks()
	if err := s.slot(&l); err != nil {
		return l, err
	}
	s.blanks()
	if s.rest() != "" {
		return l, s.fail(s.at, "%q is too much", s.rest())
	}
	return l, nil
}

// slot reads 0-3,8 or * with PACKAGE: before it or not.
func (s *scanner) slot(l *RankLine) error {
	l.Package, l.Slot = -1, s.at+1
	if head, _, found := strings.Cut(s.rest(), ":"); found && !strings.ContainsAny(head, " \t") {
		n, err := s.number("package")
		if err != nil {
			return err
		}
		if !s.take(":") {
			return s.fail(s.at, "a package is one number")
		}
		l.Package = n
	}
	if s.take("*") {
		return nil
	}
	start := s.at
	for {
		at := s.at
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
			return s.fail(start, "core %d stands there twice", core)
		}
	}
	return nil
}

// at points into a line, for what is wrong there on these machines.
func (f *RankFile) at(l RankLine, column int, format string, args ...any) error {
	return &SyntaxError{f.Name, l.Line, max(column, 1), fmt.Sprintf(format, args...)}
}

// hosts writes down which rank is on which host, ascending by rank.
func (f *RankFile) hosts() []string {
	lines := slices.SortedFunc(slices.Values(f.Lines), func(a, b RankLine) int { return cmp.Compare(a.Rank, b.Rank) })
	words := make([]string, len(lines))
	for i, l := range lines {
		words[i] = fmt.Sprintf("%d=%s", l.Rank, cmp.Or(l.Host, fmt.Sprintf("+n%d", l.Node)))
	}
	return words
}

// nodes finds the node of each rank.
func (f *RankFile) nodes(names []string, ranks int) ([]int, error) {
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
			return nil, f.at(l, l.Start, "rank %d is not one of the %d ranks of the job", l.Rank, ranks)
		case node < 0:
			return nil, f.at(l, l.On, "%s is no node of the job, whose nodes are %s", l.Host, strings.Join(names, ", "))
		case node >= len(names):
			return nil, f.at(l, l.On, "+n%d is no node of the job, whose last is +n%d", node, len(names)-1)
		}
		nodes[l.Rank] = node
	}
	if missing := slices.Index(nodes, -1); missing >= 0 {
		return nil, fmt.Errorf("%w: %s does not place rank %d", ErrNoRoom, f.Name, missing)
	}
	return nodes, nil
}

// byFile gives each rank what its line says.
func (n *node) byFile(f *RankFile, ranks []int, d *dealing) error {
	packages, err := n.objects(&Policy{Map: Package})
	if err != nil {
		packages = nil // a line that names one is refused below
	}
	lines := map[int]RankLine{}
	for _, l := range f.Lines {
		lines[l.Rank] = l
	}
	owner := map[int]int{} // PU: rank
	for _, rank := range ranks {
		l, cores, what := lines[rank], n.cores, n.name
		if l.Package >= len(packages) {
			return f.at(l, l.Slot, "%s has %d packages that may be used, counted from 0: not %d", n.name, len(packages), l.Package)
		}
		if l.Package >= 0 {
			cores, what = packages[l.Package].cores, fmt.Sprintf("package %d of %s", l.Package, n.name)
		}
		chosen := cores
		if l.Cores != nil {
			chosen = nil
			for _, core := range l.Cores {
				if core >= len(cores) {
					return f.at(l, l.Slot, "%s has %d cores that may be used, counted from 0: not %d", what, len(cores), core)
				}
				chosen = append(chosen, cores[core])
			}
		}
		pus := sorted(chosen)
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
