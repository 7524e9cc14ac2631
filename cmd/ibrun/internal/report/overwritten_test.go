package report

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ibrun/ibrun/perf"
)

// overwrittenPage returns the snapshot of a page into which something else has written; nil if the page is not valid any more.
func overwrittenPage(t *testing.T, rng *rand.Rand, rank, size int) *perf.Snapshot {
	t.Helper()
	memory := make([]byte, perf.PageBytes)
	r, err := perf.NewRecorder(memory, perf.Identity{Rank: rank, Size: size}, perf.On)
	if err != nil {
		t.Fatal(err)
	}
	for i, op := range perf.Ops() {
		r.End(op, i<<i%20, r.Begin(op, i<<i%20))
		link := r.Link(i%size, perf.Transport(i)%perf.Transports)
		link.Out(i)
		r.Enter(op, int32(i%size), 1, 1)
	}
	r.Joined()
	for at := 7 * 8; at < perf.PageBytes-8; at += 8 { // behind magic, version, length, state, rank and size
		if binary.NativeEndian.Uint64(memory[at:]) != 0 && rng.IntN(150) == 0 {
			binary.NativeEndian.PutUint64(memory[at:], rng.Uint64()>>rng.IntN(64))
		}
	}
	for range 50 {
		binary.NativeEndian.PutUint64(memory[8*(6+rng.IntN(30)):], rng.Uint64()>>rng.IntN(64))
	}
	p, err := perf.Open(memory)
	if err != nil {
		return nil
	}
	s, err := p.Snapshot()
	if err != nil {
		return nil
	}
	return s
}

// TestBarOfAnything: a share of whatever size has a bar of the same length.
func TestBarOfAnything(t *testing.T) {
	want := len(bar(0.3, 0.5))
	for _, waiting := range []float64{-1e300, -1, 0, 1, 1e18, 1e300} {
		for _, mpi := range []float64{-1e300, 0, 1, 1e300} {
			if got := bar(waiting, mpi); len(got) != want {
				t.Errorf("bar(%g, %g) is %q", waiting, mpi, got)
			}
		}
	}
}

// TestOverwrittenPages: whatever stands in the pages of ranks, there is a report.
func TestOverwrittenPages(t *testing.T) {
	const size = 3
	valid := 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 0))
		j := slowJob()
		j.Wall, j.Ranks = time.Second, make([]Rank, size)
		j.Nodes = []Node{{Name: "node"}}
		for i := range j.Ranks {
			j.Nodes[0].Ranks = append(j.Nodes[0].Ranks, Place{Rank: i})
			if j.Ranks[i].Snapshot = overwrittenPage(t, rng, i, size); j.Ranks[i].Snapshot != nil {
				valid++
			}
		}
		r := New(j)
		for name, write := range map[string]func(io.Writer) error{"text": r.Text, "HTML": r.HTML, "JSON": r.JSON} {
			if err := write(io.Discard); err != nil {
				t.Errorf("seed %d: %s: %v", seed, name, err)
			}
		}
	}
	if valid < 20 {
		t.Errorf("only %d pages were valid", valid)
	}
}
