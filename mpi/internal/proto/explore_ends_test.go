package proto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Scenarios of waits that end without a message, and of goals that no other scenario has: see the
// table in docs/waiting.md.

// otherContext is a context in which goroutines acknowledge that their wait in testContext has
// ended.
const otherContext = testContext + 1

var errLost = errors.New("the engine was made to fail")

// inOther returns a route in otherContext.
func inOther(r Route) Route {
	r.Context = otherContext
	return r
}

// ends starts a goroutine whose wait must end with an error that is want. It then calls after,
// unless that is nil.
func (x *execution) ends(name string, want error, wait, after func() error) {
	x.run(name, func() error {
		err := wait()
		if !errors.Is(err, want) {
			return fmt.Errorf("the error is %w", err)
		}
		if after == nil {
			return nil
		}
		return after()
	})
}

// waiting starts goroutines that wait for process 1 in different ways, all of which must fail.
func (x *execution) waiting(want, wantProbe error, after func() error) {
	e, watched := x.es[0], func(tag int32) Route { // with the number of the process, which watching it needs
		r := from(1, tag)
		r.Peer = 1
		return r
	}
	x.ends("receive", want, func() error { _, err := e.Recv(watched(1), nil); return err }, after)
	x.ends("probe", wantProbe, func() error {
		_, _, err := e.Probes().Probe(context.Background(), watched(2), true)
		return err
	}, after)
	x.ends("channel", want, func() error {
		r := e.Irecv(watched(3), nil)
		<-e.Requests().Done(r)
		_, err := e.Requests().Wait(r)
		return err
	}, after)
}

// later starts a goroutine that calls f. There are schedules in which it does so later than others.
func (x *execution) later(name string, f func() error) {
	x.run(name, func() error {
		x.es[1].lock()
		x.es[1].unlock()
		return f()
	})
}

// connect makes the processes exchange a message.
func (x *execution) connect() {
	for i, e := range x.es {
		if err := e.Send(to(i, 1-i, 0), nil, Standard); err != nil {
			x.t.Fatal(err)
		}
	}
	for i, e := range x.es {
		if _, err := e.Recv(from(1-i, 0), nil); err != nil {
			x.t.Fatal(err)
		}
	}
}

// endScenarios are those in which waits end without a message.
var endScenarios = []exploredScenario{
	{name: "engine fails", run: func(x *execution) {
		x.waiting(errLost, errLost, nil)
		x.later("abort", func() error { x.es[0].Processes().Abort(errLost); return nil })
	}},
	{name: "engine fails beside a schedule", run: func(x *execution) {
		e := x.es[0]
		s := &script{steps: []scriptStep{recvStep(1, make([]byte, 1))}}
		h := s.start(e, 3)
		x.ends("schedule", errLost, func() error { _, err := e.Requests().Wait(h); return err }, nil)
		x.ends("receive", errLost, func() error { _, err := e.Recv(from(1, 1), nil); return err }, nil)
		x.later("abort", func() error { e.Processes().Abort(errLost); return nil })
	}},
	{name: "engine is closed", run: func(x *execution) {
		e := x.es[0]
		s := &script{steps: []scriptStep{recvStep(1, make([]byte, 1))}}
		s.start(e, 3)
		for i := range int32(2) {
			c := e.Requests().Done(e.Irecv(from(1, i), nil))
			x.run(fmt.Sprint("channel ", i), func() error { <-c; return nil })
		}
		x.later("close", e.Close)
	}},
	{name: "process finalizes", run: func(x *execution) {
		x.connect()
		x.es[0].Processes().AllowFinalize()
		x.waiting(ErrFailed, ErrFailed, nil)
		x.later("close", x.es[1].Close)
	}},
	{name: "process finalizes without a message", run: func(x *execution) {
		x.es[0].Processes().AllowFinalize()
		x.waiting(ErrFailed, ErrFailed, nil)
		x.later("close", x.es[1].Close)
	}},
	{name: "process is lost", run: func(x *execution) {
		x.connect()
		x.waiting(ErrFailed, ErrFailed, nil)
		x.later("close", x.es[1].Close)
	}},
	{name: "launcher reports that a process has left", run: func(x *execution) {
		e, peer := x.es[0], x.es[1]
		e.Processes().AllowFinalize()
		x.run("exit", func() error {
			n, err := e.Processes().WaitMessageOrExit(0, otherContext, 1, 0)
			if n == 0 {
				return fmt.Errorf("nobody has left, %w", err)
			}
			return err
		})
		x.run("receive", func() error { _, err := e.Recv(from(1, 1), nil); return err })
		x.later("peer", func() error {
			err := peer.Send(to(1, 0, 1), nil, Standard)
			e.Processes().Left([]int{1})
			return cmp.Or(err, peer.Close())
		})
	}},
	{name: "process leaves a communicator", run: func(x *execution) {
		e, peer := x.es[0], x.es[1]
		e.Processes().Watch(testContext, 1)
		ack := func() error { return e.Send(inOther(to(0, 1, 1)), nil, Standard) }
		x.waiting(ErrFailed, ErrFailed, ack)
		x.run("peer", func() error {
			peer.Contexts().Leave(testContext)
			for range 3 {
				if _, err := peer.Recv(inOther(from(0, 1)), nil); err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{name: "process leaves that changes a word", run: func(x *execution) {
		e, peer := x.es[0], x.es[1]
		e.Processes().Watch(testContext, 1)
		var word, sleepers uint64
		ack := func() error { return e.Send(inOther(to(0, 1, 1)), nil, Standard) }
		x.ends("word", ErrFailed, func() error { return e.Segments().WaitAtLeast(to(0, 1, 0), 8, &word, 1, &sleepers) }, ack)
		x.run("receive", func() error { _, err := e.Recv(inOther(from(1, 2)), nil); return err })
		x.run("peer", func() error {
			peer.Contexts().Leave(testContext)
			if _, err := peer.Recv(inOther(from(0, 1)), nil); err != nil {
				return err
			}
			return peer.Send(inOther(to(1, 0, 2)), nil, Standard)
		})
	}},
	{name: "communicator is freed", run: func(x *execution) {
		e, peer := x.es[0], x.es[1]
		x.waiting(ErrFreed, ErrContextEnded, func() error { return e.Send(inOther(to(0, 1, 1)), nil, Standard) })
		x.later("free", func() error { e.Contexts().Free(testContext, ErrFreed); return nil })
		x.run("peer", func() error {
			for range 3 {
				if _, err := peer.Recv(inOther(from(0, 1)), nil); err != nil {
					return err
				}
			}
			return nil
		})
	}},
	{name: "hints change", run: func(x *execution) {
		e, any := x.es[0], Route{Context: testContext, Peer: AnySource, Match: Match{Rank: AnySource, Tag: 1}}
		x.ends("probe", ErrAnySource, func() error {
			_, _, err := e.Probes().Probe(context.Background(), any, true)
			return err
		}, receive(e, 1))
		x.run("receive", receive(e, 2))
		x.later("hints", func() error {
			e.Contexts().SetHints(testContext, Hints{NoAnySource: true, EagerLimit: -1, Rail: -1})
			return x.sends(1, 2)
		})
	}},
}

// goalScenarios are those of further goals.
var goalScenarios = []exploredScenario{
	{name: "some of many", run: func(x *execution) {
		e := x.es[0]
		x.run("some", func() error {
			bs, hs := [smallSet + 9][1]byte{}, [smallSet + 9]Handle{} // so many are looked at a few at a time
			for i := range hs {
				hs[i] = e.Irecv(from(1, int32(i)), bs[i][:])
			}
			var failed error
			for left := 2; left > 0; {
				n, err := e.Requests().WaitSome(context.Background(), 0, hs[:], func(i int, _ Status, err error) {
					failed = cmp.Or(failed, acknowledge(e, int32(i), bs[i][:], err))
				})
				if err = cmp.Or(err, failed); n < 1 || err != nil {
					return fmt.Errorf("%d have completed: %w", n, err)
				}
				left -= n
			}
			for _, h := range hs {
				if h.r != nil {
					failed = cmp.Or(failed, e.Requests().Cancel(h), e.Requests().Free(h))
				}
			}
			return failed
		})
		x.run("receive", receive(e, 99))
		x.send(smallSet+8, 99, 0)
	}},
	{name: "matched probes", run: func(x *execution) {
		e := x.es[0]
		for i := range 2 {
			x.run(fmt.Sprint("probe ", i), func() error {
				m, st, _, err := e.Probes().MatchedProbe(context.Background(), from(1, AnyTag), true)
				if err != nil {
					return err
				}
				b := make([]byte, 1)
				_, err = e.Requests().Wait(e.Probes().RecvMatched(0, m, oneBlock(b), nil))
				return acknowledge(e, st.Tag, b, err)
			})
		}
		x.send(1, 2)
	}},
	{name: "flush", run: func(x *execution) {
		e, peer := x.es[0], x.es[1]
		h := e.Irecv(inOther(from(1, 1)), nil)
		x.ends("flush", ErrFreed, func() error {
			if !e.PrepareFlush(otherContext, otherContext+1) {
				return errors.New("no receive is posted")
			}
			if err := e.Flush(0, otherContext, otherContext+1); err != nil {
				return err
			}
			e.Contexts().Free(otherContext, ErrFreed)
			_, err := e.Requests().Wait(h)
			return err
		}, func() error { return e.Send(to(0, 1, 3), nil, Standard) })
		x.run("receive", receive(e, 2))
		x.run("peer", func() error {
			if _, err := peer.Recv(from(0, 3), nil); err != nil { // answers meanwhile
				return err
			}
			if err := peer.Send(to(1, 0, 2), []byte{2}, Standard); err != nil {
				return err
			}
			_, err := peer.Recv(from(0, 2), nil)
			return err
		})
	}},
	{name: "idle context", run: func(x *execution) {
		e, peer := x.es[0], x.es[1]
		h := e.Irecv(inOther(from(1, 1)), nil)
		x.run("idle", func() error {
			err := e.Contexts().WaitIdle(0, otherContext)
			return cmp.Or(err, receive(e, 2)())
		})
		x.run("wait", func() error { _, err := e.Requests().Wait(h); return err })
		x.run("peer", func() error {
			err := peer.Send(inOther(to(1, 0, 1)), nil, Standard)
			err = cmp.Or(err, peer.Send(to(1, 0, 2), []byte{2}, Standard))
			if err == nil {
				_, err = peer.Recv(from(0, 2), nil)
			}
			return err
		})
	}},
	{name: "attached buffer", run: func(x *execution) {
		e, peer := x.es[0], x.es[1]
		out, in := make([]byte, 100<<10), make([]byte, 100<<10)
		if err := e.AttachedBuffer().Attach(make([]byte, 128<<10)); err != nil {
			x.t.Fatal(err)
		}
		x.run("detach", func() error {
			if err := e.Send(to(0, 1, 1), out, Buffered); err != nil {
				return err
			}
			_, err := e.AttachedBuffer().Detach()
			return cmp.Or(err, e.Send(to(0, 1, 3), nil, Standard))
		})
		x.run("receive", receive(e, 2))
		x.run("peer", func() error {
			_, err := peer.Recv(from(0, 1), in)
			if err == nil {
				_, err = peer.Recv(from(0, 3), nil)
			}
			if err = cmp.Or(err, peer.Send(to(1, 0, 2), []byte{2}, Standard)); err == nil {
				_, err = peer.Recv(from(0, 2), nil)
			}
			return err
		})
	}},
	{name: "sends that have left", run: func(x *execution) {
		e, peer := x.es[0], x.es[1]
		out, in := make([]byte, 128<<10), make([]byte, 128<<10)
		x.run("flush", func() error {
			h, err := e.Isend(to(0, 1, 1), out, Standard)
			if err = cmp.Or(err, e.FlushSends()); err == nil {
				_, err = e.Requests().Wait(h)
			}
			return err
		})
		x.run("receive", receive(e, 2))
		x.run("peer", func() error {
			_, err := peer.Recv(from(0, 1), in)
			if err = cmp.Or(err, peer.Send(to(1, 0, 2), []byte{2}, Standard)); err == nil {
				_, err = peer.Recv(from(0, 2), nil)
			}
			return err
		})
	}},
}
