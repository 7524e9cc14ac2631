package perf

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	end := uint64(0)
	for b := range buckets {
		lower, upper := bounds(b)
		if lower != end || bucketOf(lower) != b || bucketOf(upper-1) != b {
			t.Fatalf("bucket %d is %d to %d, after %d", b, lower, upper, end)
		}
		if lower >= SubBuckets && float64(upper-lower)/float64(lower) > 1.0/SubBuckets {
			t.Fatalf("bucket %d is %d to %d: too wide", b, lower, upper)
		}
		end = upper
	}
	if end != uint64(MaxDuration) || bucketOf(end) != buckets-1 || bucketOf(math.MaxUint64) != buckets-1 {
		t.Errorf("buckets end at %d, want %d", end, MaxDuration)
	}
}

// TestQuantiles: within 5 % of the raw values, also after histograms have been merged.
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"uniform":     func() float64 { return 30 + 1e6*rng.Float64() },
		"exponential": func() float64 { return 100 + 5000*rng.ExpFloat64() },
		"log-normal":  func() float64 { return math.Exp(8 + 2*rng.NormFloat64()) },
		"two modes":   func() float64 { return []float64{150, 3e9}[rng.IntN(2)] * (1 + 0.1*rng.Float64()) },
		"constant":    func() float64 { return 113 },
	} {
		for _, n := range []int{1, 2, 7, 1000, 20000} {
			raw := make([]time.Duration, n)
			for i := range raw {
				raw[i] = time.Duration(max(draw(), 20))
			}
			h := HistogramOf(raw[:n/3]...)
			h.Merge(nil)
			h.Merge(HistogramOf(raw[n/3:]...))
			slices.Sort(raw)
			if h.Count() != uint64(n) || h.Max() != raw[n-1] {
				t.Fatalf("%s: %d values, the longest %v; want %d and %v", name, h.Count(), h.Max(), n, raw[n-1])
			}
			for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
				want := raw[max(int(math.Ceil(q*float64(n))), 1)-1]
				if got := h.Quantile(q); math.Abs(float64(got-want)) > 0.05*float64(want) {
					t.Errorf("%s, %d values: quantile %v is %v, want %v", name, n, q, got, want)
				}
			}
		}
	}
}

// TestRecordedQuantiles: quantiles read from a page agree with the recorded values.
func TestRecordedQuantiles(t *testing.T) {
	memory, r := newPage(t, All)
	rng := rand.New(rand.NewPCG(3, 4))
	var raw []time.Duration
	for range 5000 {
		ns := uint64(math.Exp(6 + 3*rng.Float64()))
		c := &r.page.cells[Recv][0]
		add(&c.calls, 1)
		r.observe(c, ns, 1)
		raw = append(raw, time.Duration(ns))
	}
	slices.Sort(raw)
	o := snapshot(t, memory).Ops[0]
	var sum time.Duration
	for _, d := range raw {
		sum += d
	}
	if o.Time != sum || o.Latency.Sum() != sum || o.Latency.Count() != o.Calls {
		t.Errorf("%v in %d calls, want %v", o.Time, o.Latency.Count(), sum)
	}
	for _, q := range []float64{0.5, 0.99, 0.999} {
		want := raw[int(math.Ceil(q*float64(len(raw))))-1]
		if got := o.Latency.Quantile(q); math.Abs(float64(got-want)) > 0.05*float64(want) {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

func TestSince(t *testing.T) {
	h := HistogramOf(100, 5000)
	earlier := HistogramOf(100, 5000)
	h.Merge(HistogramOf(5001, 7))
	got := slices.Collect(h.Since(earlier).Buckets())
	if len(got) != 2 || got[0] != (Bucket{7, 8, 1}) || got[1].Count != 1 || got[1].Lower > 5001 || h.Since(earlier).Sum() != 5008 {
		t.Errorf("%v", got)
	}
	if n := h.Since(nil).Count(); n != 4 {
		t.Errorf("since the start: %d", n)
	}
	var none *Histogram
	if none.Since(h) != nil || none.Count() != 0 || none.Quantile(0.5) != 0 || none.Sum() != 0 || none.Max() != 0 {
		t.Error("a nil histogram is not empty")
	}
	if h.Since(h).Count() != 0 || h.Since(h).Quantile(1) != 0 {
		t.Error("nothing since itself")
	}
}

// TestImmediateOps: an immediate collective has the name of its blocking form, with an I, and is what that is.
func TestImmediateOps(t *testing.T) {
	found := 0
	for _, o := range Ops() {
		b := o.Blocking()
		if b == o {
			continue
		}
		found++
		name := b.String()
		if want := "I" + strings.ToLower(name[:1]) + name[1:]; o.String() != want || b.IsImmediateCollective() ||
			!o.IsCollective() || !b.IsCollective() || o.Direction() != b.Direction() || o.Within().Blocking() != b.Within() {
			t.Errorf("%v is the immediate form of %v", o, b)
		}
	}
	if found != 22 {
		t.Errorf("%d immediate collectives", found)
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, op := range Ops() {
		if op.String() == "" || seen[op.String()] {
			t.Errorf("operation %d is called %q", op, op)
		}
		seen[op.String()] = true
	}
	if len(seen) != int(ops)-1 || Flush.String() != "Flush" || Alltoallv.String() != "Alltoallv" ||
		Allreduce.Within().String() != "Allreduce" {
		t.Errorf("%d names", len(seen))
	}
	for o, want := range map[Op]Op{Bcast: 29, Alltoallv: 42, CreateIntercomm: 67, Ialltoallv: 85, IreduceScatterBlock: 95,
		IneighborAlltoallw: 99} { // in pages of other versions
		if o != want {
			t.Errorf("%v has the number %d, want %d", o, uint8(o), uint8(want))
		}
	}
	for n, want := range map[int]Class{
		0: 0, 64: 0, 65: 1, 512: 1, 513: 2, 4096: 2, 4097: 3, 32 << 10: 3, 16 << 20: 6, 16<<20 + 1: 7, 1 << 40: 7,
	} {
		if got := ClassOf(n); got != want {
			t.Errorf("%d bytes are of class %v, want %v", n, got, want)
		}
	}
	for c := range Class(Classes - 1) {
		if ClassOf(c.Max()) != c || ClassOf(c.Max()+1) != c+1 {
			t.Errorf("class %v ends at %d", c, c.Max())
		}
	}
	for transport := OtherTransport; transport < Transports; transport++ {
		if TransportNamed(transport.String()) != transport {
			t.Errorf("transport %v", transport)
		}
	}
	if TransportNamed("pigeon") != OtherTransport {
		t.Error("an unknown transport has a name")
	}
}
