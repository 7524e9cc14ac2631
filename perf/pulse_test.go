package perf

import (
	"slices"
	"testing"
)

// TestPulse: it tells what a snapshot would.
func TestPulse(t *testing.T) {
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
	r.Enter(Recv, 2, 7, 16)
	page, err := Open(memory)
	if err != nil {
		t.Fatal(err)
	}
	s, err := page.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Pulse{page.Pulse(), s.Pulse()} {
		if p.Calls != 41 || p.Done != 3 || p.Total != 9 || !slices.Equal(p.Current, []Current{{1, 0, Recv, 2, 7, 16}}) {
			t.Errorf("the pulse is %+v", p)
		}
	}
}

func TestOpNames(t *testing.T) {
	collective := 0
	for _, o := range Ops() {
		if OpNamed(o.String()) != o {
			t.Errorf("%v is named as %v", o, OpNamed(o.String()))
		}
		if o.IsCollective() {
			collective++
		}
		if o.IsCollective() != o.Within().IsCollective() {
			t.Errorf("%v is a collective by itself only", o)
		}
	}
	if collective != 21 || !Barrier.IsCollective() || !Finalize.IsCollective() || !Fence.IsCollective() || Sendrecv.IsCollective() ||
		Put.IsCollective() || NoOp.IsCollective() || OpNamed("") != NoOp || OpNamed("other") != NoOp {
		t.Errorf("%d collectives; \"\" is %v", collective, OpNamed(""))
	}
}

func BenchmarkPulse(b *testing.B) {
	memory := make([]byte, PageBytes)
	if _, err := NewRecorder(memory, Identity{Size: 1}, On); err != nil {
		b.Fatal(err)
	}
	page, err := Open(memory)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		page.Pulse()
	}
}
