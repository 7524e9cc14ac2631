package proto

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/hook"
	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/perf"
)

// traced returns engines that trace their messages with one clock, and their traces.
func traced(t *testing.T, n, unexpected int, w wrap) ([]*Engine, [][]byte) {
	t.Helper()
	var memory [][]byte
	es := open(t, n, w, func(c *Config) {
		c.UnexpectedLimit = unexpected
		who := perf.Identity{Rank: len(memory), Size: n}
		memory = append(memory, make([]byte, perf.TraceBytes))
		var err error
		if c.Trace, err = perf.NewTrace(memory[who.Rank], who); err != nil {
			t.Fatal(err)
		}
		if c.Recorder, err = perf.NewRecorder(make([]byte, perf.PageBytes), who, perf.All); err != nil {
			t.Fatal(err)
		}
	})
	began := time.Now()
	for _, e := range es {
		e.Recording().StartTrace(func() int64 { return int64(time.Since(began)) })
	}
	return es, memory
}

// checkTraces checks that both ends of every message have the same entries in the traces. It
// returns the number of messages.
func checkTraces(t *testing.T, memory [][]byte) (messages int) {
	t.Helper()
	type key struct {
		from, to int
		number   uint32
	}
	sends := map[key]perf.Event{}
	var matches []perf.Event
	var keys []key
	for self, b := range memory {
		tr, err := perf.ReadTrace(b)
		if err != nil || tr.Lost != 0 {
			t.Fatalf("trace of %d: %v, %d lost", self, err, tr.Lost)
		}
		sent := map[int]uint32{}
		for _, e := range tr.Events {
			switch e.Kind {
			case perf.Sent:
				if sent[e.Peer]++; e.Number != sent[e.Peer] {
					t.Fatalf("%d sent to %d number %d, want %d", self, e.Peer, e.Number, sent[e.Peer])
				}
				sends[key{self, e.Peer, e.Number}] = e
			case perf.Matched:
				matches, keys = append(matches, e), append(keys, key{e.Peer, self, e.Number})
			}
		}
	}
	for i, e := range matches {
		l, ok := sends[keys[i]]
		if !ok || l.Tag != e.Tag || l.Bytes != e.Bytes || l.Context != e.Context || l.At > e.At {
			t.Fatalf("%+v:\nsent as    %+v\nmatched as %+v", keys[i], l, e)
		}
		delete(sends, keys[i])
	}
	if len(sends) > 0 {
		t.Fatalf("never matched: %+v", sends)
	}
	return len(matches)
}

// TestTraceTraffic: sender and receiver give every message the same number, whichever protocol it
// takes, and also if it is unexpected, becomes an RTS, or waits for room. With IBRUN_SOAK=1 there
// are more messages.
func TestTraceTraffic(t *testing.T) {
	seed := soaktest.Seed(t)
	hooks := hook.Options{Seed: seed, Again: 0.3, Delay: 0.2, Interleave: 0.2, Async: 0.3, Poison: true}
	for name, tw := range map[string]variant{
		"read": {}, "copied": {noRead: true}, "fragments": {fragments: true}, "shared": {pairing: true}, "scarce": {scarce: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, unexpected := range []int{0, 20000} {
				t.Logf("room for %d unexpected bytes", unexpected)
				const n = 3
				es, memory := traced(t, n, unexpected, func(tr fabric.Transport) fabric.Transport {
					if tw.pairing {
						return tw.wrap(hook.Wrap(tr, hook.Options{Seed: seed, Again: 0.3, Delay: 0.3, Interleave: 0.2,
							Poison: true}))
					}
					return hook.Wrap(tw.wrap(tr), hooks)
				})
				ps := draw(rand.New(rand.NewPCG(seed, 0)), n, soaktest.Choose(15, 10))
				each(t, es, func(self int, e *Engine) error {
					if err := exchange(e, self, ps, rand.New(rand.NewPCG(seed, uint64(self)+1))); err != nil {
						return err
					}
					return e.FlushSends()
				})
				if got := checkTraces(t, memory); got != len(ps) {
					t.Errorf("%d messages, want %d", got, len(ps))
				}
			}
		})
	}
}

// TestTraceRTR: the same in a context with RTRs.
func TestTraceRTR(t *testing.T) {
	for name, tw := range map[string]variant{
		"write": {}, "shared": {pairing: true}, "copied": {noRead: true}, "fragments": {fragments: true},
	} {
		t.Run(name, func(t *testing.T) {
			seed := soaktest.Seed(t)
			es, memory := traced(t, 2, 0, tw.wrap)
			setExactLength(es, 1)
			c := rand.New(rand.NewPCG(seed, 0))
			plans := [2][]exactMessage{plan(c, 60, true), plan(c, 60, true)}
			each(t, es, func(self int, e *Engine) error {
				return exchangeExact(e, self, plans[self], plans[1-self], rand.New(rand.NewPCG(seed, uint64(self))))
			})
			if got := checkTraces(t, memory); got != 120 {
				t.Errorf("%d messages, want 120", got)
			}
		})
	}
}

// TestTraceOps: an operation is traced with its peer and tag, but not while recording is off.
// Messages are counted all the time.
func TestTraceOps(t *testing.T) {
	es, memory := traced(t, 1, 0, nil)
	e := es[0]
	there := to(0, 0, 7)
	there.Op = perf.Send
	here := from(0, 7)
	here.Op = perf.Recv
	for i := range 3 {
		e.SetRecording(i != 1)
		if err := e.Send(there, make([]byte, 8), Standard); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Recv(here, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := perf.ReadTrace(memory[0])
	if err != nil {
		t.Fatal(err)
	}
	var ops, numbers []uint32
	for _, ev := range tr.Events {
		if ev.Kind != perf.Operation {
			numbers = append(numbers, ev.Number)
		} else if ops = append(ops, uint32(ev.Op)); ev.Peer != 0 || ev.Tag != 7 || ev.Bytes != 8 {
			t.Errorf("%+v", ev)
		}
	}
	if len(ops) != 4 || len(numbers) != 4 || numbers[0] != 1 || numbers[3] != 3 {
		t.Errorf("operations %v, messages %v", ops, numbers)
	}
}

// TestTraceSchedule: a schedule is in the trace from its start to its end, with its work and its
// messages.
func TestTraceSchedule(t *testing.T) {
	es, memory := traced(t, 1, 0, nil)
	e := es[0]
	work := doStep(StepShort, func() error { return nil })
	work.Buf = make([]byte, 40)
	s := script{steps: []scriptStep{recvStep(0, make([]byte, 8)), sendStep(0, 0, make([]byte, 8)), waitStep(), work,
		doStep(StepLong, func() error { return nil })}, ended: make(chan error, 1)}
	on := Route{Context: testContext, Match: Match{Tag: 7}, Op: perf.Iallreduce}
	if _, err := e.Requests().Wait(e.Schedules().Start(on, 16, &s, new(Schedule))); err != nil {
		t.Fatal(err)
	}
	tr, err := perf.ReadTrace(memory[0])
	if err != nil {
		t.Fatal(err)
	}
	kinds, bytes := map[perf.EventKind]int{}, 0
	var whole perf.Event
	for _, ev := range tr.Events {
		kinds[ev.Kind]++
		switch ev.Kind {
		case perf.InProgress:
			whole = ev
		case perf.Step:
			bytes += ev.Bytes
		}
	}
	if kinds[perf.Sent] != 1 || kinds[perf.Matched] != 1 || kinds[perf.Step] != 2 || kinds[perf.InProgress] != 1 || bytes != 40 {
		t.Errorf("%+v", tr.Events)
	}
	for _, ev := range tr.Events {
		if ev.Kind == perf.Step && (ev.Op != perf.Iallreduce || ev.At < whole.At || ev.Until > whole.Until) {
			t.Errorf("%+v in %+v", ev, whole)
		}
	}
}

// TestTraceAllocs: tracing a message allocates nothing.
func TestTraceAllocs(t *testing.T) {
	es, _ := traced(t, 1, 0, nil)
	e, there, here, b := es[0], to(0, 0, 7), from(0, 7), make([]byte, 8)
	there.Op, here.Op = perf.Send, perf.Recv
	var err error
	if n := alloctest.Count(1000, func() {
		if err == nil {
			err = e.Send(there, b, Standard)
		}
		if err == nil {
			_, err = e.Recv(here, b)
		}
	}); n != 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}
