package checking

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// classes has another number for each difference, so that a wrong one shows.
var classes = Classes{Calls: 1, Roots: 2, Types: 3, Ops: 4, Counts: 5}

// numbers returns the calls of n ranks: each is a copy of x, changed by change.
func numbers(n int, x Call, change func(rank int, x *Call)) (calls []*Call) {
	for rank := range n {
		y := x
		y.Where = "solver/main.go:31"
		if change != nil {
			change(rank, &y)
		}
		calls = append(calls, &y)
	}
	return calls
}

// judge returns the verdict of Judge about ranks that are the processes with the same numbers.
func judge(calls []*Call) *Verdict {
	var peers []int32
	for rank := range calls {
		peers = append(peers, int32(rank))
	}
	return Judge(calls, peers, &classes)
}

// at returns a change of the call of one rank.
func at(rank int, change func(x *Call)) func(int, *Call) {
	return func(r int, x *Call) {
		if r == rank {
			change(x)
		}
	}
}

// TestJudge: calls that agree have no verdict. Otherwise the verdict has the class of what differs
// first, and names both calls.
func TestJudge(t *testing.T) {
	reduce := Call{Call: perf.Reduce, Type: datatype.Float64, Count: 11, Op: "sum", Root: 1, Rooted: true}
	gatherv := Call{Call: perf.Gatherv, Type: datatype.Int32, Count: 2, Root: 0, Rooted: true}
	counts := at(0, func(x *Call) { x.Counts = []int{2, 2, 2} })
	alltoallv := Call{Call: perf.Alltoallv, Type: datatype.Uint8, Counts: []int{1, 2, 3}, From: []int{1, 2, 3}}
	matching := func(rank int, x *Call) { x.From = slices.Repeat([]int{rank + 1}, 3) }
	for _, c := range []struct {
		name  string
		calls []*Call
		class int32 // 0: no verdict
		text  string
	}{
		{"the same", numbers(3, reduce, nil), 0, ""},
		{"another collective", numbers(3, reduce, at(2, func(x *Call) { *x = Call{Call: perf.Barrier, Where: "a.go:1"} })), 1,
			"Barrier at a.go:1 (rank 2) against Reduce of 11 elements of float64 (sum) with root 1 at solver/main.go:31 (rank 0)"},
		{"the immediate form", numbers(2, reduce, at(1, func(x *Call) { x.Call = perf.Ireduce })), 1, "Ireduce"},
		{"more Idups", numbers(2, reduce, at(1, func(x *Call) { x.Idups = 3 })), 1, "after 3 Idup"},
		{"another root", numbers(2, reduce, at(1, func(x *Call) { x.Root, x.Count = 0, 12 })), 2, "with root 0"},
		{"another type", numbers(2, reduce, at(1, func(x *Call) { x.Type = datatype.Int32 })), 3, "int32"},
		{"another operation", numbers(2, reduce, at(1, func(x *Call) { x.Op = "max" })), 4, "(max)"},
		{"another count", numbers(2, reduce, at(1, func(x *Call) { x.Count = 12 })), 5, "12 elements"},
		{"another signature", numbers(2, Call{Call: perf.Bcast, Data: "1:a", Count: 8}, at(1, func(x *Call) { x.Data = "1:b" })), 3,
			"8 bytes of several types (signature 1:b)"},
		{"another length and signature", numbers(2, Call{Call: perf.Bcast, Data: "1:a", Count: 8},
			at(1, func(x *Call) { x.Data, x.Count = "2:b", 16 })), 5, "16 bytes"},
		{"Gatherv", numbers(3, gatherv, counts), 0, ""},
		{"Gatherv of another length", numbers(3, gatherv, func(rank int, x *Call) {
			if counts(rank, x); rank == 2 {
				x.Count = 4
			}
		}), 5, "4 elements, but the other rank has a count of 2"},
		{"Alltoallv", numbers(3, alltoallv, matching), 0, ""},
		{"Alltoallv and Alltoallw", numbers(3, alltoallv, func(rank int, x *Call) {
			if matching(rank, x); rank == 1 {
				x.Call = perf.Alltoallw
			}
		}), 0, ""},
		{"Alltoallv of another length", numbers(3, alltoallv, nil), 5, "elements, but the other rank has a count of"},
		{"lists of wrong lengths", numbers(3, alltoallv, at(1, func(x *Call) { x.Counts, x.From = []int{1}, nil })), 5, "rank 2"},
	} {
		v := judge(c.calls)
		switch {
		case c.class == 0 && v != nil:
			t.Errorf("%s: %v", c.name, v)
		case c.class == 0:
		case v == nil || v.Class != c.class || !strings.Contains(v.Error(), c.text):
			t.Errorf("%s: got %+v, want class %d and %q", c.name, v, c.class, c.text)
		}
	}
}

// TestJudgeFailure: the error that a rank has found by itself is the verdict, also where the calls
// differ.
func TestJudgeFailure(t *testing.T) {
	calls := numbers(2, Call{Call: perf.Barrier}, at(1, func(x *Call) {
		x.Call, x.Failure = perf.Bcast, &Verdict{42, "no such rank"}
	}))
	v := judge(calls)
	if want := "Bcast at solver/main.go:31 (rank 1) failed: no such rank"; v == nil || v.Class != 42 || v.Text != want {
		t.Errorf("got %+v, want %q", v, want)
	}
	calls[1] = nil
	if v := judge(calls); v == nil || v.Class != classes[Calls] {
		t.Errorf("a rank has sent nothing: %+v", v)
	}
}

// TestJudgeViews: blocks of views have the same number of bytes and the same numbers at both ranks,
// also if one rank passes slices.
func TestJudgeViews(t *testing.T) {
	two := datatype.OfKind(datatype.Int32).Signature().Repeat(2)
	other := datatype.OfKind(datatype.Float64).Signature()
	gatherv := func(sent datatype.Signature, bytes int) []*Call {
		root := &Call{Call: perf.Gatherv, Type: datatype.Int32, Count: 2, Rooted: true, Counts: []int{2, 2}}
		return []*Call{root, {Call: perf.Gatherv, Count: bytes, Rooted: true, Parts: &Parts{Own: sent}}}
	}
	for _, c := range []struct {
		sent  datatype.Signature
		bytes int
		class int32
	}{{two, 8, 0}, {other, 8, classes[Types]}, {two, 12, classes[Counts]}} {
		v := judge(gatherv(c.sent, c.bytes))
		if got := v; (got == nil) != (c.class == 0) || got != nil && got.Class != c.class {
			t.Errorf("%d bytes of %v: got %+v, want class %d", c.bytes, c.sent, got, c.class)
		}
	}
}

// TestJudgeNamesProcess: a text names the process of a rank where its number is another one.
func TestJudgeNamesProcess(t *testing.T) {
	calls := numbers(2, Call{Call: perf.Barrier}, at(1, func(x *Call) { x.Call = perf.Bcast }))
	v := Judge(calls, []int32{0, 7}, &classes)
	if v == nil || !strings.Contains(v.Text, "(rank 1, process 7)") || !strings.Contains(v.Text, "(rank 0)") {
		t.Errorf("got %+v", v)
	}
}

// TestCallJSON: what a call does not have is not sent, and a call that arrives is the one that was
// sent.
func TestCallJSON(t *testing.T) {
	b, err := json.Marshal(&Call{Call: perf.Barrier, Where: "a.go:1"})
	if err != nil {
		t.Fatal(err)
	}
	if s := string(b); strings.Count(s, ":") != 3 || !strings.Contains(s, `"Where":"a.go:1"`) {
		t.Errorf("a Barrier is sent as %s", s)
	}
	sent := &Call{Call: perf.Gatherv, Type: datatype.Int32, Counts: []int{1, 2},
		Parts: &Parts{Own: datatype.OfKind(datatype.Int32).Signature(),
			Counts: []datatype.Signature{datatype.OfKind(datatype.Float64).Signature().Repeat(3), {}},
			From:   []datatype.Signature{datatype.OfKind(datatype.Int8).Signature()}},
		Failure: &Verdict{5, "failed"}}
	if b, err = json.Marshal(sent); err != nil {
		t.Fatal(err)
	}
	got := new(Call)
	if err := json.Unmarshal(b, got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, sent) {
		t.Errorf("sent %+v, got %+v", sent, got)
	}
}
