package clocksync

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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
	if m.r.IntN(10) == 0 {
		return oneWay + extraDelay
	}
	return oneWay + int64(m.r.ExpFloat64()*oneWay/10)
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

// TestSimulated follows a clock an hour ahead that drifts, with a varying rate, for some minutes, over messages that
// are sometimes delayed.
func TestSimulated(t *testing.T) {
	for _, ppm := range []float64{0, 40, -90} {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		m := &machines{r: rand.New(rand.NewPCG(seed, 1)), truth: hour * 10, rate: ppm * 1e-6}
		m.join()
		began, beyond, checks := m.truth, 0, 0
		for m.truth < began+4*int64(time.Minute) {
			begins, length := NextCycle(m.leader.Now() - began)
			m.pass(began + begins - m.leader.Now())
			if now := m.other.t.Load(); m.fit.Add(m.burst()) {
				b := m.fit.Correction(now + length/4)
				m.leader.Steer(b)
				w, ok := DecodeCorrection(b.Encode())
				if m.pass(m.r.Int64N(max(now+length/4-m.other.t.Load(), 1))); !ok || w != b {
					t.Fatalf("%v was handed on as %v, %v", b, w, ok)
				}
				m.follower.Steer(w)
			}
			for range 8 {
				off := m.look(t)
				if off > oneWay {
					t.Errorf("%v ppm: %v after the start the clock is off by %d ns", ppm, time.Duration(m.truth-began), off)
				}
				if checks++; off > m.fit.Residual() {
					beyond++
				}
				m.pass(length / 20)
			}
		}
		if beyond > checks/20 {
			t.Errorf("%v ppm: %d of %d times the clock was off by more than the residual, %d ns", ppm, beyond, checks, m.fit.Residual())
		}
		if r := m.fit.Residual(); r >= oneWay || m.follower.Residual() == 0 || m.fit.RoundTrip() < 2*oneWay-2 {
			t.Errorf("%v ppm: residual %d, of the follower %d, round trip %d", ppm, r, m.follower.Residual(), m.fit.RoundTrip())
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
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
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
	if r := m.fit.Residual(); r < stood-oneWay {
		t.Errorf("the residual %d does not tell", r)
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

// TestFitIgnores: slow samples and bursts without an answer are ignored.
func TestFitIgnores(t *testing.T) {
	var f Fit
	if f.Add(nil) {
		t.Error("took no samples")
	}
	if !f.Add([]Sample{{0, 1000, 900}, {1000, 2050, 1100}, {2000, 9000, 2400}}) || f.RoundTrip() != 100 || f.Residual() != 50 {
		t.Errorf("round trip %d, residual %d", f.RoundTrip(), f.Residual())
	}
	want := Line{At: 1050, Offset: 1000}
	if f.Add([]Sample{{5000, 6275, 5351}}) || f.Line() != want {
		t.Errorf("line %v, want %v: a slow sample had the clocks where they may be", f.Line(), want)
	}
	if !f.Add([]Sample{{6000, 7090, 6150}}) || f.Residual() != 15 {
		t.Errorf("residual %d, want 15", f.Residual())
	}
	before := f.Line().Time(7200)
	if !f.Add([]Sample{{7000, before + 180, 7400}}) || f.Line().Time(7200) <= before || f.Line().Time(7200) > before+30 {
		t.Errorf("from %d to %d: a slow sample showed that they are 30 apart at least", before, f.Line().Time(7200))
	}
	if !f.Add([]Sample{{8000, before + 9000, 8400}}) || f.Line().Offset != before+9000-8200 {
		t.Errorf("line %v after one of the clocks stood still", f.Line())
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
	f.Fuzz(func(t *testing.T, from, at, offset, rate, residual uint64) {
		b, ok := DecodeCorrection([5]uint64{from, at, offset, rate, residual})
		if !ok {
			return
		}
		if got := b.Encode(); got != [5]uint64{from, at, offset, rate, residual} {
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
		if n := testing.AllocsPerRun(100, func() { c.Now() }); n != 0 {
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
