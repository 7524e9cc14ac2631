package coll

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestTable: a table is searched first, and what it does not say is selected as without it. Ranks that share memory use its
// algorithms with messages as well, also those for commutative operations.
func TestTable(t *testing.T) {
	text := `{"ibrun_collectives": 1, "rules": [
		{"collective": "allreduce", "algorithm": "ring", "max_bytes": 100, "min_ranks": 3, "max_ranks": 4},
		{"collective": "allgather", "algorithm": "recursive doubling"},
		{"collective": "gather", "algorithm": "linear", "several_nodes": true},
		{"collective": "reduce", "algorithm": "two-level", "max_bytes": 10},
		{"collective": "iallreduce", "algorithm": "shared memory", "max_bytes": 50},
		{"collective": "iallreduce", "algorithm": "messages"},
		{"collective": "barrier", "algorithm": "dissemination"}]}`
	x, err := ParseTable([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		c            Collective
		bytes, ranks int
		commutative  bool
		family       Family
		want         Algorithm
	}{
		{OfAllreduce, 100, 3, true, Direct, Ring}, {OfAllreduce, 101, 3, true, Direct, SharedMemory},
		{OfAllreduce, 8, 2, true, Direct, SharedMemory}, {OfAllreduce, 8, 5, true, Messages, RecursiveDoubling},
		{OfAllreduce, 8, 3, false, Messages, RecursiveDoubling}, {OfAllgather, 1 << 20, 8, true, Direct, RecursiveDoubling},
		{OfGather, 8, 8, true, TwoLevels, Linear}, {OfGather, 8, 8, true, Direct, SharedMemory},
		{OfReduce, 10, 8, true, TwoLevels, TwoLevel},
		{OfReduce, 10, 8, true, Direct, SharedMemory}, {OfReduce, 10, 8, true, Messages, Binomial},
		{OfAllgather, 1 << 20, 6, true, Messages, Ring}, {OfBarrier, 0, 8, true, Direct, Dissemination},
	} {
		if got := Choose(x, c.c, c.bytes, c.ranks, c.commutative, c.family).Algorithm; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if a := (&Shm{shmSteps: shmSteps{ShmConfig: ShmConfig{Size: 3, Table: x}}}).Select(OfAllreduce, 100); a != None {
		t.Errorf("ranks that share memory choose %v, and not the ring of the table, which uses messages", a)
	}
	again, err := ParseTable(x.Encode())
	if err != nil || !slices.Equal(again.Rules, x.Rules) || !slices.Equal(again.Immediate, x.Immediate) || again.Hash != x.Hash {
		t.Errorf("%v, %+v, want %+v", err, again, x)
	}
	for old, changed := range map[string]string{": 100": ": 101", ": 50": ": 51", "iallreduce": "ireduce"} {
		other, err := ParseTable(bytes.Replace(x.Encode(), []byte(old), []byte(changed), 1))
		if err != nil || other.Hash == x.Hash {
			t.Errorf("%v, another table has the same hash", err)
		}
	}
}

// TestTableWithoutNUMA: the table in docs/transports.md switches two levels within a node off, and changes nothing else.
func TestTableWithoutNUMA(t *testing.T) {
	page, err := os.ReadFile("../../../docs/transports.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```json sample\n")
	text, _, _ = strings.Cut(text, "```")
	x, err := ParseTable([]byte(text))
	if err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	for c := OfBarrier; c <= OfReduceScatter; c++ {
		for ranks := 1; ranks <= 128; ranks++ {
			for bytes := 1; bytes < 1<<24; bytes *= 2 {
				one := Choose(nil, c, bytes, ranks, true, Direct).Algorithm
				if got := Choose(x, c, bytes, ranks, true, Direct|NUMANodes).Algorithm; got != one {
					t.Fatalf("%v of %d bytes between %d ranks: %v, want %v", c, bytes, ranks, got, one)
				}
			}
		}
	}
}

// TestTableErrors: a wrong file is an error, which names what is wrong.
func TestTableErrors(t *testing.T) {
	rule := func(text string) string { return `{"ibrun_collectives": 1, "rules": [{"collective": ` + text + `}]}` }
	for text, want := range map[string]string{
		"": "JSON", "{}": "want a table", `{"ibrun_collectives": 2}`: "want a table of collectives in format 1",
		rule(`"sum"`):                                                    `unknown collective "sum"`,
		rule(`"barrier", "algorithm": "ring"`):                           " for barrier: want one of ",
		rule(`"bcast", "algorithm": "none"`):                             " for bcast: want one of ",
		rule(`"barrier", "algorithm": "direct copy"`):                    " for barrier: want one of ",
		rule(`"bcast", "algorithm": "binomial", "min_ranks": -1`):        "negative",
		rule(`"allgatherv", "algorithm": "shared memory"`):               "cannot choose the algorithm of allgatherv",
		rule(`"ibcast", "algorithm": "binomial"`):                        " for ibcast: want one of ",
		rule(`"ibcast", "algorithm": "none"`):                            " for ibcast: want one of ",
		rule(`"bcast", "algorithm": "messages"`):                         " for bcast: want one of ",
		rule(`"igather", "algorithm": "direct copy"`):                    `igather: want one of "shared memory", "messages"`,
		rule(`"iallgatherv", "algorithm": "messages"`):                   "cannot choose the algorithm of iallgatherv",
		rule(`"iscan", "algorithm": "messages"`):                         `unknown collective "iscan"`,
		rule(`"i", "algorithm": "messages"`):                             `unknown collective "i"`,
		rule(`"ibcast", "algorithm": "messages", "several_nodes": true`): "one node",
	} {
		if _, err := ParseTable([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if x, err := ReadTable(func(string) string { return "" }); x != nil || err != nil {
		t.Errorf("without a file: %v, %v", x, err)
	}
	if _, err := ReadTable(func(string) string { return t.TempDir() + "/none" }); err == nil ||
		!strings.Contains(err.Error(), TableVariable) {
		t.Errorf("a file that does not exist: %v", err)
	}
}

// FuzzTable: any file is an error or a table that is the same after Encode.
func FuzzTable(f *testing.F) {
	f.Add([]byte(`{"ibrun_collectives": 1, "rules": [{"collective": "bcast", "algorithm": "binomial", "max_bytes": 8}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := ParseTable(b)
		if err != nil {
			return
		}
		if again, err := ParseTable(x.Encode()); err != nil || again.Hash != x.Hash {
			t.Errorf("%v after Encode of %s", err, b)
		}
	})
}
