package coll

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
)

// Table has rules that are searched before those of this package, as `ibrun bench tune` finds them by measuring.
type Table struct {
	Rules []Rule
	// Hash is a hash of the rules. The ranks of a job must have the same.
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

// fileRule is a Rule in a file. 0 means any.
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
		return nil, fmt.Errorf("it is no table of collectives of format %d", tableFormat)
	}
	h := fnv.New64a()
	t := &Table{}
	for i, x := range f.Rules {
		r, err := x.rule()
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
		t.Rules = append(t.Rules, r)
		fmt.Fprintln(h, r) // never fails
	}
	t.Hash = h.Sum64()
	return t, nil
}

// rule returns the rule, or an error if the algorithm is none of the collective.
func (x fileRule) rule() (r Rule, err error) {
	c, ok := ParseCollective(x.Collective)
	if !ok {
		return r, fmt.Errorf("unknown collective %q", x.Collective)
	}
	a := Algorithm(max(0, slices.Index(algorithmNames[:], x.Algorithm)))
	if a == None || !slices.Contains(Candidates(c), a) {
		return r, fmt.Errorf("%q is no algorithm of %v", x.Algorithm, c)
	}
	if x.MaxBytes < 0 || x.MinRanks < 0 || x.MaxRanks < 0 {
		return r, errors.New("a limit is negative")
	}
	r = Rule{Collective: c, Algorithm: a, MaxBytes: x.MaxBytes, MinRanks: x.MinRanks, MaxRanks: x.MaxRanks,
		PowerOfTwo: c == OfAllgather && a == RecursiveDoubling, Commutative: c == OfAllreduce && a == Ring}
	if x.Nodes {
		r.Needs = TwoLevels
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = always
	}
	return r, nil
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

// Encode returns the content of a file.
func (t *Table) Encode() []byte {
	f := file{Format: tableFormat}
	for _, r := range t.Rules {
		n := r.MaxBytes
		if n == always {
			n = 0
		}
		f.Rules = append(f.Rules, fileRule{r.Collective.String(), r.Algorithm.String(), n, r.MinRanks, r.MaxRanks,
			r.Needs&TwoLevels != 0})
	}
	b, _ := json.MarshalIndent(f, "", "  ") // it consists of numbers and strings
	return append(b, '\n')
}
