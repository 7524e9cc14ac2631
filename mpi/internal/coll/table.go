package coll

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Table has rules that are searched before those of this package, as `ibrun bench tune` finds them by measuring.
type Table struct {
	Rules []Rule
	// Immediate are the rules of immediate calls within a node. Their algorithms are SharedMemory, DirectCopy, and None for
	// messages.
	Immediate []Rule
	// Hash is a hash of all rules. The ranks of a job must have the same.
	Hash uint64
}

// TableVariable is the environment variable that names the file of a table.
const TableVariable = "IBRUN_COLLECTIVES"

// tableFormat is the number of the format of files.
const tableFormat = 1

// file is the content of a file.
type file struct {
	Format int        `json:"ibrun_collectives"`
	Rules  []fileRule `json:"rules"`
}

// fileRule is a Rule in a file. 0 means any. The immediate form of a collective has an i before the name.
type fileRule struct {
	Collective string `json:"collective"`
	Algorithm  string `json:"algorithm"`
	MaxBytes   int    `json:"max_bytes,omitempty"`
	MinRanks   int    `json:"min_ranks,omitempty"`
	MaxRanks   int    `json:"max_ranks,omitempty"`
	Nodes      bool   `json:"several_nodes,omitempty"`
}

// ReadTable reads the file that a variable of the environment names. It returns nil if the variable is not set.
func ReadTable(getenv func(string) string) (*Table, error) {
	name := getenv(TableVariable)
	if name == "" {
		return nil, nil
	}
	b, err := os.ReadFile(name)
	if err == nil {
		var t *Table
		if t, err = ParseTable(b); err == nil {
			return t, nil
		}
	}
	return nil, fmt.Errorf("%s=%s: %w", TableVariable, name, err)
}

// ParseTable reads the content of a file.
func ParseTable(b []byte) (*Table, error) {
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	if f.Format != tableFormat {
		return nil, fmt.Errorf(`want a table of collectives in format %d, which begins {"ibrun_collectives": %[1]d`, tableFormat)
	}
	t := &Table{}
	for i, x := range f.Rules {
		r, immediate, err := x.rule()
		switch {
		case err != nil:
			return nil, fmt.Errorf("rule %d: %w", i, err)
		case immediate:
			t.Immediate = append(t.Immediate, r)
		default:
			t.Rules = append(t.Rules, r)
		}
	}
	h := fnv.New64a()
	fmt.Fprintln(h, t.Rules, t.Immediate) // never fails
	t.Hash = h.Sum64()
	return t, nil
}

// rule returns the rule, and whether it is one of immediate calls, or an error if the collective
// does not have the algorithm.
func (x fileRule) rule() (r Rule, immediate bool, err error) {
	c, immediate, ok := ParseCall(x.Collective)
	if !ok {
		return r, false, fmt.Errorf("unknown collective %q", x.Collective)
	}
	a, ok := ParseAlgorithm(c, immediate, x.Algorithm)
	switch {
	case !ok:
		return r, false, unknownAlgorithm(x, candidates(c, immediate))
	case x.MaxBytes < 0 || x.MinRanks < 0 || x.MaxRanks < 0:
		return r, false, errors.New("a limit is negative")
	case x.Nodes && immediate:
		return r, false, fmt.Errorf("rules of %s are for the ranks of one node", x.Collective)
	}
	r = Rule{Collective: c, Algorithm: a, MaxBytes: x.MaxBytes, MinRanks: x.MinRanks, MaxRanks: x.MaxRanks,
		PowerOfTwo: c == OfAllgather && a == RecursiveDoubling, Commutative: c == OfAllreduce && a == Ring}
	if x.Nodes {
		r.Needs = TwoLevels
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = always
	}
	return r, immediate, nil
}

// Candidates returns all algorithms of a collective.
func Candidates(c Collective) (found []Algorithm) {
	if c != OfAllgatherv {
		found = append(found, SharedMemory)
	}
	if c == OfBarrier || c == OfReduce || c == OfAllreduce {
		found = append(found, SharedTwoLevel)
	}
	if c != OfAllgatherv && c != OfBarrier {
		found = append(found, DirectCopy)
	}
	return append(found, algorithms[c]...)
}

// ImmediateCandidates returns all algorithms of an immediate collective within a node. None stands for messages.
func ImmediateCandidates(c Collective) []Algorithm {
	switch c {
	case OfAllgatherv:
		return nil
	case OfBcast, OfScatter:
		return []Algorithm{SharedMemory, DirectCopy, None}
	}
	return []Algorithm{SharedMemory, None}
}

// ParseCall returns the collective with a name. The immediate form has an i before the name.
func ParseCall(name string) (c Collective, immediate, ok bool) {
	if c, ok = ParseCollective(name); ok {
		return c, false, true
	}
	name, immediate = strings.CutPrefix(name, "i")
	c, ok = ParseCollective(name)
	return c, immediate, ok && immediate
}

// ParseAlgorithm returns the algorithm of a collective with a name, among those of blocking or of immediate calls.
func ParseAlgorithm(c Collective, immediate bool, name string) (Algorithm, bool) {
	of := candidates(c, immediate)
	i := slices.IndexFunc(of, func(a Algorithm) bool { return a.TableName() == name })
	if i < 0 {
		return None, false
	}
	return of[i], true
}

// unknownAlgorithm returns the error of a rule whose algorithm is not among those of its collective.
func unknownAlgorithm(x fileRule, of []Algorithm) error {
	if len(of) == 0 {
		return fmt.Errorf("a table cannot choose the algorithm of %s", x.Collective)
	}
	names := make([]string, len(of))
	for i, a := range of {
		names[i] = strconv.Quote(a.TableName())
	}
	return fmt.Errorf("unknown algorithm %q for %s: want one of %s", x.Algorithm, x.Collective, strings.Join(names, ", "))
}

func candidates(c Collective, immediate bool) []Algorithm {
	if immediate {
		return ImmediateCandidates(c)
	}
	return Candidates(c)
}

// MessagesName is the name of None in a table, where it is the algorithm of immediate calls that use messages.
const MessagesName = "messages"

// TableName returns the name of an algorithm in a table.
func (a Algorithm) TableName() string {
	if a == None {
		return MessagesName
	}
	return a.String()
}

// Encode returns the content of a file.
func (t *Table) Encode() []byte {
	f := file{Format: tableFormat}
	add := func(prefix string, rules []Rule) {
		for _, r := range rules {
			n := r.MaxBytes
			if n == always {
				n = 0
			}
			f.Rules = append(f.Rules, fileRule{prefix + r.Collective.String(), r.Algorithm.TableName(), n, r.MinRanks, r.MaxRanks,
				r.Needs&TwoLevels != 0})
		}
	}
	add("", t.Rules)
	add("i", t.Immediate)
	b, _ := json.MarshalIndent(f, "", "  ") // it consists of numbers and strings
	return append(b, '\n')
}
