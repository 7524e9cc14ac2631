package perf

import (
	"slices"
	"testing"
)

// TestActivity: Activity returns the same as a snapshot.
func TestActivity(t *testing.T) {
	memory := make([]byte, PageBytes)
	r, err := NewRecorder(memory, Identity{Rank: 1, Size: 3}, On)
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		r.End(Send, 8, r.Begin(Send, 8))
	}
	r.End(Flush, 1<<20, r.Begin(Flush, 1<<20))
	r.Progress(3, 9)
	r.SetName(r.Name("solver"))
	r.Enter(Recv, 2, 7, 16)
	page, err := Open(memory)
	if err != nil {
		t.Fatal(err)
	}
	s, err := page.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Activity{page.Activity(), s.Activity()} {
		if p.Calls != 41 || p.Done != 3 || p.Total != 9 || !slices.Equal(p.Current, []Current{{1, 0, Recv, 2, 7, 16, "", "solver"}}) {
			t.Errorf("the pulse is %+v", p)
		}
	}
}

func TestOpNames(t *testing.T) {
	collective, named := 0, map[string]Op{"": NoOp, NoOp.String(): NoOp}
	for _, o := range Ops() {
		if other, twice := named[o.String()]; twice {
			t.Errorf("%d and %d are both %q", o, other, o)
		}
		named[o.String()] = o
		if o.IsCollective() {
			collective++
		}
		if o.IsCollective() != o.Within().IsCollective() {
			t.Errorf("%v is a collective by itself only", o)
		}
	}
	if collective != 64 || !Barrier.IsCollective() || !Finalize.IsCollective() || !Fence.IsCollective() ||
		!SessionClose.IsCollective() || Sendrecv.IsCollective() || Put.IsCollective() || NoOp.IsCollective() {
		t.Errorf("%d collectives", collective)
	}
}

func BenchmarkActivity(b *testing.B) {
	memory := make([]byte, PageBytes)
	if _, err := NewRecorder(memory, Identity{Size: 1}, On); err != nil {
		b.Fatal(err)
	}
	page, err := Open(memory)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		page.Activity()
	}
}
