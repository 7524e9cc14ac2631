package clocksync

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/internal/soaktest"
)

// hand is a source that a test turns.
type hand struct{ t atomic.Int64 }

func (h *hand) source() Source { return Source{Now: h.t.Load} }

// machines are a reference, whose source is the true time, and two clocks on another machine, which read one source.
type machines struct {
	r                *rand.Rand
	truth            int64
	ahead, rate      float64 // of the other source; the rate wanders
	other            hand
	leader, follower Clock
	fit              Fit
	last             int64 // last reading of the leader's clock
	same             bool  // the rate never changes
	load             int64 // nanoseconds for which each question is queued behind messages
	busy             int64 // messages of both directions are queued for a random time between a tenth of this and all of it
}

const (
	hour       = int64(time.Hour)
	oneWay     = 5000 // of a message, at least
	extraDelay = 1e6  // when something comes in between
)

// pass lets some true time go by.
func (m *machines) pass(ns int64) {
	for step := min(ns, 1e6); ns > 0; ns, step = ns-step, min(ns-step, 1e6) {
		m.truth += step
		m.ahead += m.rate * float64(step)
		if !m.same {
			m.rate += 1e-9 * m.r.NormFloat64() * math.Sqrt(float64(step)/1e9)
		}
		m.other.t.Store(m.truth + hour + int64(m.ahead))
	}
}

// oneWayDelay returns the time that a message takes; one in ten is delayed.
func (m *machines) oneWayDelay() int64 {
	queued := int64(0)
	if m.busy > 0 {
		queued = m.busy/10 + m.r.Int64N(m.busy*9/10)
	}
	if m.r.IntN(10) == 0 {
		return oneWay + extraDelay + queued
	}
	return oneWay + queued + int64(m.r.ExpFloat64()*oneWay/10)
}

func (m *machines) burst() (got []Sample) {
	for range 8 {
		s := Sample{Sent: m.other.t.Load()}
		m.pass(m.oneWayDelay() + m.load)
		s.Remote = m.truth
		m.pass(m.oneWayDelay())
		s.Received = m.other.t.Load()
		got = append(got, s)
	}
	return got
}

// join is what happens before the clocks run: some bursts in a row, half a millisecond apart.
func (m *machines) join() {
	m.leader.Init(m.other.source())
	m.follower.Init(m.other.source())
	for range 12 {
		m.pass(500e3)
		m.fit.Add(m.burst())
	}
	m.start()
}

func (m *machines) start() {
	b := m.fit.Correction(m.other.t.Load())
	m.leader.Start(b)
	m.follower.Start(b)
	m.fit.Clock = &m.leader
	m.last = m.leader.Now()
}

// look checks the clocks and returns by how much they are off.
func (m *machines) look(t *testing.T) int64 {
	t.Helper()
	now := m.leader.Now()
	if other := m.follower.Now(); other != now {
		t.Fatalf("at %d the leader has %d, the follower %d", m.truth, now, other)
	}
	if now < m.last {
		t.Fatalf("at %d the clock went from %d back to %d", m.truth, m.last, now)
	}
	m.last = now
	return max(now-m.truth, m.truth-now)
}

// checkBound checks that the clock is not off by more than its bound, and what no exchange of messages can measure: half of the
// fastest round trip.
func (m *machines) checkBound(t *testing.T, off int64) {
	t.Helper()
	if b := m.leader.Bound(); off > b.Error+m.fit.RoundTrip()/2 {
		t.Errorf("rate %v: at %d the clock is off by %d ns; the bound is %v, half of the round trip %d ns",
			m.rate, m.truth, off, b, m.fit.RoundTrip()/2)
	}
}

// TestSimulated follows a clock an hour ahead that drifts, with a varying rate, for some minutes, over messages that
// are sometimes delayed.
func TestSimulated(t *testing.T) {
	for _, ppm := range []float64{0, 40, -90} {
		seed := soaktest.Seed(t)
		m := &machines{r: rand.New(rand.NewPCG(seed, 1)), truth: hour * 10, rate: ppm * 1e-6}
		m.join()
		began := m.truth
		for m.truth < began+4*int64(time.Minute) {
			begins, length := NextCycle(m.leader.Now() - began)
			m.pass(began + begins - m.leader.Now())
			if now := m.other.t.Load(); m.fit.Add(m.burst()) {
				b := m.fit.Correction(now + length/4)
				m.leader.Steer(b)
				w, ok := DecodeCorrection(b.Encode())
				// The correction arrives before it takes effect, also by the other clock, which may be faster.
				early := now + length/4 - m.other.t.Load()
				if m.pass(m.r.Int64N(max(early-early/1000, 1))); !ok || w != b {
					t.Fatalf("%v was handed on as %v, %v", b, w, ok)
				}
				m.follower.Steer(w)
			}
			for range 8 {
				off := m.look(t)
				if off > oneWay {
					t.Errorf("%v ppm: %v after the start the clock is off by %d ns", ppm, time.Duration(m.truth-began), off)
				}
				m.checkBound(t, off)
				m.pass(length / 20)
			}
		}
		if b := m.leader.Bound(); b.Error >= oneWay || b.Error == 0 || m.follower.Bound() != b || m.fit.RoundTrip() < 2*oneWay-2 {
			t.Errorf("%v ppm: bound %v, of the follower %v, round trip %d", ppm, b, m.follower.Bound(), m.fit.RoundTrip())
		}
		if got := m.fit.Line().Rate; math.Abs(got+m.rate) > 1e-7 {
			t.Errorf("the rate is %v, found %v", -m.rate, got)
		}
	}
}

// TestOneSidedLoad: messages queue in one direction for a minute, so all questions are slow. The clocks stay as close
// as before: those of one kernel from the start, others when their rates are known.
func TestOneSidedLoad(t *testing.T) {
	for _, ppm := range []float64{0, 40, -90} {
		seed := soaktest.Seed(t)
		m := &machines{r: rand.New(rand.NewPCG(seed, 2)), truth: hour * 10, rate: ppm * 1e-6, same: ppm == 0}
		m.fit.SameKernel = m.same
		m.join()
		began := m.truth
		for m.truth < began+90*int64(time.Second) {
			if m.truth > began+30*int64(time.Second) || m.fit.SameKernel {
				m.load = 30e3 + m.r.Int64N(300e3)
			}
			begins, length := NextCycle(m.leader.Now() - began)
			m.pass(began + begins - m.leader.Now())
			if now := m.other.t.Load(); m.fit.Add(m.burst()) {
				b := m.fit.Correction(now + length/4)
				m.leader.Steer(b)
				m.follower.Steer(b)
			}
			m.pass(length / 4)
			if off := m.look(t); off > oneWay {
				t.Fatalf("%v ppm: %v after the start the clock is off by %d ns", ppm, time.Duration(m.truth-began), off)
			}
		}
	}
}

// TestLineContradicted: a source that stood still makes the line impossible, and a new line is fitted; the clock
// catches up without a jump.
func TestLineContradicted(t *testing.T) {
	m := &machines{r: rand.New(rand.NewPCG(1, 2)), truth: hour}
	m.leader.Init(m.other.source())
	m.follower.Init(m.other.source())
	exchange := func() {
		for range 5 {
			m.pass(100e6)
			m.fit.Add(m.burst())
		}
	}
	exchange()
	m.start()
	const stood = 3e6
	m.ahead -= stood
	exchange()
	if off := m.look(t); off < stood-oneWay {
		t.Fatalf("off by %d before anybody corrected it", off)
	}
	if b := m.fit.Bound(); b.Error < stood-oneWay {
		t.Errorf("the bound is %v", b)
	}
	b := m.fit.Correction(m.other.t.Load() + 1e6)
	m.leader.Steer(b)
	m.follower.Steer(b)
	before := m.look(t)
	for range 100 {
		m.pass(int64(stood) * slewRatio / 90)
		off := m.look(t)
		if off > max(before, oneWay)+10 {
			t.Fatalf("off by %d, after %d", off, before)
		}
		before = off
	}
	if before > oneWay {
		t.Errorf("off by %d in the end", before)
	}
}

// TestRateUnderLoad: the rates of the clocks differ, and all messages are slow, in both directions, from the start. The rate is
// found nevertheless, and until then the bound says what is not known.
func TestRateUnderLoad(t *testing.T) {
	for _, ppm := range []float64{0, 60, -200, 1000} {
		seed := soaktest.Seed(t)
		const busy = 300e3
		m := &machines{r: rand.New(rand.NewPCG(seed, 3)), truth: hour * 10, rate: ppm * 1e-6, busy: busy}
		m.join()
		began := m.truth
		for m.truth < began+90*int64(time.Second) {
			begins, length := NextCycle(m.leader.Now() - began)
			m.pass(began + begins - m.leader.Now())
			now := m.other.t.Load()
			m.fit.Add(m.burst())
			b := m.fit.Correction(now + length/4)
			m.leader.Steer(b)
			m.follower.Steer(b)
			for range 4 {
				m.pass(length / 6)
				off := m.look(t)
				if ppm < 1000 { // otherwise the clock is worse than the bounds assume, until they are contradicted
					m.checkBound(t, off)
				}
				// A tenth of the load is in every message, and the fastest of hundreds are near to that.
				if m.truth > began+15*int64(time.Second) && off > busy/4 {
					t.Errorf("%v ppm: %v after the start the clock is off by %d ns", ppm, time.Duration(m.truth-began), off)
				}
			}
			if t.Failed() {
				return
			}
		}
		if got := m.fit.Line().Rate; math.Abs(got+m.rate) > 5e-6 {
			t.Errorf("the rate is %v, found %v", -m.rate, got)
		}
	}
}

// TestBoundGrows: without measurements the bound grows faster than the error.
func TestBoundGrows(t *testing.T) {
	for _, seconds := range []int64{0, 1, 10} {
		m := &machines{r: rand.New(rand.NewPCG(4, uint64(seconds))), truth: hour, rate: 60e-6}
		m.join()
		for range seconds {
			m.pass(1e9)
			m.fit.Add(m.burst())
			b := m.fit.Correction(m.other.t.Load())
			m.leader.Steer(b)
			m.follower.Steer(b)
		}
		m.pass(1e9) // the clock has reached its line
		last := m.leader.Bound().Error
		for range 100 {
			m.pass(1e9)
			m.checkBound(t, m.look(t))
			b := m.leader.Bound()
			if b.Error <= last {
				t.Fatalf("the bound was %d, and is %d a second later", last, b.Error)
			}
			last = b.Error
		}
	}
}

// TestFitBounds: a slow sample moves the line as far as it proves that the line was wrong.
func TestFitBounds(t *testing.T) {
	var f Fit
	if f.Add(nil) {
		t.Error("took no samples")
	}
	const s = int64(time.Second)
	if !f.Add([]Sample{{s, s + 1100, s + 900}, {s + 1000, s + 2050, s + 1100}, {s + 2000, s + 3200, s + 2400}}) ||
		f.RoundTrip() != 100 || f.Bound().Error > 50 {
		t.Errorf("round trip %d, bound %v", f.RoundTrip(), f.Bound())
	}
	if want := (Line{At: s + 1050, Offset: 1000}); f.Line() != want {
		t.Errorf("line %v, want %v", f.Line(), want)
	}
	f.Add([]Sample{{2 * s, 2*s + 1300, 2*s + 400}})
	if got := f.Line().Time(2*s) - 2*s; got < 950 || got > 1050 {
		t.Errorf("offset %d: a slow sample had it where it may be", got)
	}
	f.Add([]Sample{{3 * s, 3*s + 40e3, 3*s + 400}}) // 20 ppm at least
	if got := f.Line().Time(3*s) - 3*s; got < 39500 || got > 40100 {
		t.Errorf("offset %d: a slow sample proved that it is at least 39600", got)
	}
	f.Add([]Sample{{4 * s, 5 * s, 4*s + 400}})
	if got := f.Line().Time(4*s) - 4*s; got < s-400 || got > s {
		t.Errorf("offset %d after one of the clocks stood still", got)
	}
}

// TestMonotonic: concurrent readers and corrections, early and late, up and down.
func TestMonotonic(t *testing.T) {
	s, err := Local()
	if err != nil {
		t.Fatal(err)
	}
	var c Clock
	c.Init(s)
	c.Start(Correction{Line: Line{At: s.Now()}})
	var over atomic.Bool
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for last := c.Now(); !over.Load(); {
				now := c.Now()
				if now < last {
					t.Errorf("from %d to %d", last, now)
					return
				}
				last = now
			}
		})
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		now := s.Now()
		c.Steer(Correction{
			From: now + r.Int64N(200e3) - 100e3,
			Line: Line{At: now, Offset: r.Int64N(2e6) - 1e6, Rate: r.Float64()*1e-2 - 5e-3},
		})
	}
	over.Store(true)
	all.Wait()
}

func TestNextCycle(t *testing.T) {
	for since, want := range map[int64][2]int64{
		-5: {0, 20e6}, 0: {20e6, 40e6}, 19e6: {20e6, 40e6}, 20e6: {60e6, 80e6}, 700e6: {1260e6, 1280e6},
		1260e6: {2540e6, 1280e6}, 2540e6 - 1: {2540e6, 1280e6}, 2540e6: {3820e6, 1280e6},
	} {
		if begins, length := NextCycle(since); begins != want[0] || length != want[1] {
			t.Errorf("%d: %d, %d, want %v", since, begins, length, want)
		}
	}
}

// FuzzDecodeCorrection: for any words from another process, a clock advances and never goes back.
func FuzzDecodeCorrection(f *testing.F) {
	f.Add(uint64(1e9), uint64(0), uint64(0), uint64(0), uint64(5))
	f.Add(uint64(5), uint64(7), uint64(1<<63), math.Float64bits(-0.01), uint64(0))
	f.Add(uint64(1<<61-1), uint64(1<<61-1), uint64(1<<61-1), math.Float64bits(0.01), uint64(1<<63-1))
	f.Add(uint64(0), uint64(0), uint64(0), math.Float64bits(math.NaN()), uint64(0))
	f.Fuzz(func(t *testing.T, from, at, offset, rate, bound uint64) {
		b, ok := DecodeCorrection([5]uint64{from, at, offset, rate, bound})
		if !ok {
			return
		}
		if got := b.Encode(); got != [5]uint64{from, at, offset, rate, bound} {
			t.Fatalf("%v has the words %v", b, got)
		}
		var h hand
		h.t.Store(1e9)
		var c Clock
		c.Init(h.source())
		c.Start(Correction{Line: Line{At: 1e9, Offset: 1e6, Rate: 1e-5}})
		last := c.Now()
		for i := range int64(200) {
			if i == 10 || i == 100 {
				c.Steer(b)
			}
			h.t.Add(i * i * i * 1000)
			now := c.Now()
			if now < last {
				t.Fatalf("%v: from %d to %d", b, last, now)
			}
			last = now
		}
	})
}

func TestAllocs(t *testing.T) {
	s, err := Local()
	if err != nil {
		t.Fatal(err)
	}
	var c Clock
	c.Init(s)
	for _, started := range []bool{false, true} {
		if started {
			c.Start(Correction{Line: Line{At: s.Now(), Offset: hour, Rate: 1e-5}})
		}
		if n := alloctest.Count(100, func() { c.Now() }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func BenchmarkNow(b *testing.B) {
	s, err := Local()
	if err != nil {
		b.Fatal(err)
	}
	var c Clock
	c.Init(s)
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			c.Now()
		}
	})
	c.Start(Correction{Line: Line{At: s.Now(), Offset: hour, Rate: 1e-5}})
	b.Run("corrected", func(b *testing.B) {
		for b.Loop() {
			c.Now()
		}
	})
}
