package proto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// A goroutine that has received a message from process 1 acknowledges it, and process 1 sends the
// next one only then. So a goroutine that does not go on although it could holds up all others.

// acknowledge sends the acknowledgement of a message with a tag, if it was received without an
// error, and is b.
func acknowledge(e *Engine, tag int32, b []byte, err error) error {
	if err != nil {
		return err
	}
	if b[0] != byte(tag) {
		return fmt.Errorf("message %d received for tag %d", b[0], tag)
	}
	return e.Send(to(0, 1, tag), nil, Standard)
}

// receive returns a function that receives the message with a tag, and acknowledges it.
func receive(e *Engine, tag int32) func() error {
	return func() error {
		b := make([]byte, 1)
		_, err := e.Recv(from(1, tag), b)
		return acknowledge(e, tag, b, err)
	}
}

// send starts a goroutine of process 1 that sends a message with each of the tags to process 0.
func (x *execution) send(tags ...int32) { x.run("peer", func() error { return x.sends(tags...) }) }

// sends sends a message with each of the tags from process 1 to process 0, and waits for the answer
// to each.
func (x *execution) sends(tags ...int32) error {
	for _, tag := range tags {
		if err := x.es[1].Send(to(1, 0, tag), []byte{byte(tag)}, Standard); err != nil {
			return err
		}
		if _, err := x.es[1].Recv(from(0, tag), nil); err != nil {
			return err
		}
	}
	return nil
}

// testUntil calls Test until it reports that the operation has completed.
func testUntil(e *Engine, h Handle) error {
	for {
		if _, ok, err := e.Requests().Test(h); ok || err != nil {
			return err
		}
	}
}

// exploredScenario is a scenario. Turn by turn, all schedules with at least so many deviations are
// explored; with IBRUN_SOAK=1, with one more. 0 means no more than in other scenarios.
type exploredScenario struct {
	name       string
	deviations int
	run        scenario
}

var waitScenarios = []exploredScenario{
	{name: "two receives", run: func(x *execution) {
		x.run("receive 1", receive(x.es[0], 1))
		x.run("receive 2", receive(x.es[0], 2))
		x.send(1, 2)
	}},
	{name: "three receives", run: func(x *execution) {
		for tag := range int32(3) {
			x.run(fmt.Sprint("receive ", tag), receive(x.es[0], tag))
		}
		x.send(2, 0, 1)
	}},
	{name: "test", run: func(x *execution) {
		e, b := x.es[0], make([]byte, 1)
		h := e.Irecv(from(1, 1), b)
		x.run("test", func() error { return acknowledge(e, 1, b, testUntil(e, h)) })
		x.run("receive", receive(e, 2))
		x.send(2, 1)
	}},
	{name: "schedule", deviations: 2, run: func(x *execution) {
		e, b := x.es[0], make([]byte, 1)
		s := &script{steps: []scriptStep{recvStep(1, b)}}
		h := s.start(e, 3)
		x.run("schedule", func() error {
			_, err := e.Requests().Wait(h)
			return acknowledge(e, 3, b, err)
		})
		x.run("receive 1", receive(e, 1))
		x.run("receive 2", receive(e, 2))
		x.send(1, 2, 3)
	}},
	{name: "schedule that nobody waits for", run: func(x *execution) {
		e, b := x.es[0], make([]byte, 1)
		s := &script{steps: []scriptStep{recvStep(1, b)}}
		h := s.start(e, 3)
		x.run("schedule", func() error {
			if err := <-s.ended; err != nil {
				return err
			}
			_, err := e.Requests().Wait(h)
			return acknowledge(e, 3, b, err)
		})
		x.run("receive 1", receive(e, 1))
		x.run("receive 2", receive(e, 2))
		x.send(1, 3, 2)
	}},
	{name: "schedule with long steps", run: func(x *execution) {
		e, b := x.es[0], make([]byte, 1)
		s := &script{ended: make(chan error, 1), steps: []scriptStep{doStep(StepLong, e.Poll), doStep(StepLong, e.Poll),
			recvStep(1, b)}}
		x.run("schedule", func() error {
			h := e.Schedules().Start(Route{Context: testContext, Match: Match{Tag: 3}}, longSchedule, s, new(Schedule))
			if err := <-s.ended; err != nil {
				return err
			}
			_, err := e.Requests().Wait(h)
			return acknowledge(e, 3, b, err)
		})
		x.run("receive", receive(e, 1))
		x.send(1, 3)
	}},
	{name: "schedule before receives", run: func(x *execution) {
		e, b, started := x.es[0], make([]byte, 1), make(chan struct{})
		x.run("schedule", func() error {
			s := &script{ended: make(chan error, 1), steps: []scriptStep{recvStep(1, b)}}
			h := e.Schedules().Start(Route{Context: testContext, Match: Match{Tag: 3}}, longSchedule, s, new(Schedule))
			close(started)
			if err := <-s.ended; err != nil {
				return err
			}
			_, err := e.Requests().Wait(h)
			return acknowledge(e, 3, b, err)
		})
		for tag := int32(1); tag <= 2; tag++ {
			x.run(fmt.Sprint("receive ", tag), func() error { <-started; return receive(e, tag)() })
		}
		x.send(1, 2, 3)
	}},
	{name: "channel", run: func(x *execution) {
		e, b := x.es[0], make([]byte, 1)
		s := &script{steps: []scriptStep{recvStep(1, make([]byte, 1))}}
		h := s.start(e, 3)
		x.run("channel", func() error {
			r := e.Irecv(from(1, 1), b)
			<-e.Requests().Done(r)
			_, err := e.Requests().Wait(r)
			if err := acknowledge(e, 1, b, err); err != nil {
				return err
			}
			_, err = e.Requests().Wait(h)
			return acknowledge(e, 3, []byte{3}, err)
		})
		x.run("receive 2", receive(e, 2))
		x.send(1, 2, 3)
	}},
	{name: "channel beside test", run: func(x *execution) {
		e, peer, b := x.es[0], x.es[1], make([]byte, 2)
		x.run("channel", func() error {
			r := e.Irecv(from(1, 1), b[:1])
			<-e.Requests().Done(r)
			_, err := e.Requests().Wait(r)
			return acknowledge(e, 1, b, err)
		})
		x.run("test", func() error { return acknowledge(e, 2, b[1:], testUntil(e, e.Irecv(from(1, 2), b[1:]))) })
		x.run("peer", func() error {
			err := cmp.Or(peer.Send(to(1, 0, 1), []byte{1}, Standard), peer.Send(to(1, 0, 2), []byte{2}, Standard))
			for tag := int32(1); err == nil && tag <= 2; tag++ {
				_, err = peer.Recv(from(0, tag), nil)
			}
			return err
		})
	}},
	{name: "any", run: func(x *execution) {
		e := x.es[0]
		x.run("any", func() error {
			bs := [2][1]byte{}
			hs := []Handle{e.Irecv(from(1, 1), bs[0][:]), e.Irecv(from(1, 2), bs[1][:])}
			for range hs {
				i, _, err := e.Requests().WaitAny(context.Background(), 0, hs)
				if err == nil && i >= 0 {
					err = acknowledge(e, int32(i+1), bs[i][:], nil)
				}
				if err != nil || i < 0 {
					return fmt.Errorf("index %d: %w", i, err)
				}
			}
			return nil
		})
		x.run("receive", receive(e, 3))
		x.send(2, 3, 1)
	}},
	{name: "context", run: func(x *execution) {
		e := x.es[0]
		ctx, cancel := context.WithCancel(x.t.Context())
		x.run("context", func() error {
			b := make([]byte, 1)
			_, err := e.RecvContext(ctx, from(1, 1), b)
			if errors.As(err, new(*StoppedError)) {
				return receive(e, 1)()
			}
			return acknowledge(e, 1, b, err)
		})
		x.run("receive", receive(e, 2))
		x.run("cancel", func() error {
			x.es[1].lock() // so that there are schedules in which it comes later
			x.es[1].unlock()
			cancel()
			return nil
		})
		x.send(2, 1)
	}},
	{name: "context that has to end", run: func(x *execution) {
		e := x.es[0]
		ctx, cancel := context.WithCancel(x.t.Context())
		x.run("context", func() error {
			if _, err := e.RecvContext(ctx, from(1, 9), nil); !errors.As(err, new(*StoppedError)) {
				return fmt.Errorf("the error is %w", err)
			}
			return receive(e, 1)()
		})
		x.run("receive", func() error {
			err := receive(e, 2)()
			cancel()
			return err
		})
		x.send(2, 1)
	}},
	{name: "context of a goroutine that waits alone", run: func(x *execution) {
		e, peer := x.es[0], x.es[1]
		ctx, cancel := context.WithCancel(x.t.Context())
		x.run("context", func() error {
			if _, err := e.RecvContext(ctx, from(1, 9), nil); !errors.As(err, new(*StoppedError)) {
				return fmt.Errorf("the error is %w", err)
			}
			return e.Send(to(0, 1, 1), nil, Standard)
		})
		x.run("peer", func() error {
			peer.lock() // so that there are schedules in which the context ends later
			peer.unlock()
			cancel()
			_, err := peer.Recv(from(0, 1), nil)
			return err
		})
	}},
	{name: "request of two goroutines", run: func(x *execution) {
		e, b := x.es[0], make([]byte, 1)
		h, stale := e.Irecv(from(1, 1), b), 0
		for i := range 2 {
			x.run(fmt.Sprint("wait ", i), func() error {
				_, err := e.Requests().Wait(h)
				if errors.Is(err, ErrStale) && stale == 0 {
					stale++
					return nil
				}
				return acknowledge(e, 1, b, err)
			})
		}
		x.send(1)
	}},
	{name: "request that the program completes", run: func(x *execution) {
		e := x.es[0]
		h := e.Requests().StartGrequest()
		x.run("wait", func() error {
			_, err := e.Requests().Wait(h)
			return cmp.Or(err, receive(e, 2)())
		})
		x.run("receive", func() error { return cmp.Or(receive(e, 1)(), e.Requests().CompleteGrequest(h, nil)) })
		x.send(1, 2)
	}},
	{name: "probe", run: func(x *execution) {
		e := x.es[0]
		x.run("probe", func() error {
			_, _, err := e.Probes().Probe(context.Background(), from(1, 1), true)
			return cmp.Or(err, receive(e, 1)())
		})
		x.run("receive", receive(e, 2))
		x.send(1, 2)
	}},
	{name: "word", run: func(x *execution) {
		e, peer := x.es[0], x.es[1]
		var word, sleepers uint64
		x.run("word", func() error {
			return acknowledge(e, 1, []byte{1}, e.Segments().WaitAtLeast(to(0, 1, 0), 8, &word, 1, &sleepers))
		})
		x.run("receive", receive(e, 2))
		x.run("peer", func() error {
			peer.lock() // so that there are schedules in which the word changes later
			peer.unlock()
			atomic.StoreUint64(&word, 1)
			if atomic.LoadUint64(&sleepers) != 0 {
				peer.Segments().Wake(0)
			}
			if _, err := peer.Recv(from(0, 1), nil); err != nil {
				return err
			}
			return peer.Send(to(1, 0, 2), []byte{2}, Standard)
		})
	}},
	{name: "long messages", run: func(x *execution) {
		e, peer := x.es[0], x.es[1]
		out, in := make([]byte, 128<<10), make([]byte, 128<<10)
		x.run("send", func() error { return e.Send(to(0, 1, 3), out, Standard) })
		x.run("receive", receive(e, 2))
		x.run("peer", func() error {
			if _, err := peer.Recv(from(0, 3), in); err != nil {
				return err
			}
			return peer.Send(to(1, 0, 2), []byte{2}, Standard)
		})
	}},
}

// TestExploreWaits: in all schedules that deviate a little from simple ones, and in some that
// deviate more, each goroutine that waits goes on when it can. Two deviations find a goroutine that
// parks although its request has completed while it took over from the background.
func TestExploreWaits(t *testing.T) {
	limit := soaktest.Choose(10_000, 80) // of the schedules with one deviation more
	for _, s := range slices.Concat(waitScenarios, endScenarios, goalScenarios) {
		t.Run(s.name, func(t *testing.T) {
			for _, p := range []policy{turnByTurn, inARow} {
				least := soaktest.Choose(2, 1)
				if p == turnByTurn {
					least = max(least, s.deviations+soaktest.Choose(1, 0))
				}
				n, deviations := exploreUpTo(t, p, least, limit, s.run)
				t.Logf("at most %d steps in a row, %d deviations: %d schedules", p, deviations, n)
				exploreSome(t, p, soaktest.Choose(500, 4), s.run)
			}
		})
	}
}
