//go:build linux

package rdma

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/datagrams"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// refuseTimes makes the next calls of a kind fail, and returns how many of them have. Only the test's goroutine may
// make such calls.
func refuseTimes(net *verbstest.SimulatedNetwork, kind verbstest.SimulatedCall, times int, errno syscall.Errno) *int {
	refused := new(int)
	net.Refuse(func(c verbstest.SimulatedCall) error {
		if c != kind || *refused == times {
			return nil
		}
		*refused++
		return errno
	})
	return refused
}

// TestSimulatedRefusedForAWhile: a device that has no room for a connection is asked again, on whichever side it is. No message
// is lost, and no peer.
func TestSimulatedRefusedForAWhile(t *testing.T) {
	for _, c := range []struct {
		call  verbstest.SimulatedCall
		times int
		errno syscall.Errno
	}{
		{verbstest.CallCreateQP, 1, syscall.ENOMEM}, {verbstest.CallCreateQP, 3, syscall.EAGAIN},
		{verbstest.CallModifyQP, 1, syscall.ENOMEM}, // to INIT
		{verbstest.CallModifyQP, 2, syscall.EINVAL}, {verbstest.CallRegMR, 2, syscall.ENOMEM},
	} {
		net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
		refused := refuseTimes(net, c.call, c.times, c.errno)
		connectPeers(t, ds[0], ds[1])
		connectPeers(t, ds[1], ds[0])
		if *refused != c.times {
			t.Errorf("%v was refused %d times, want %d", c.call, *refused, c.times)
		}
		for i, d := range ds {
			pollBoth(t, ds, "the peer acknowledges", func() bool { return d.eps[1-i].retry.Failure() == nil })
			if e := d.eps[1-i]; d.recvs.Reserved != int(e.msgs.In.Window)+1 {
				t.Errorf("%v: peer %d: %+v, %d slots are reserved", c.call, i, e.retry, d.recvs.Reserved)
			}
		}
	}
}

// TestSimulatedRejected: only the side that accepts is refused. The other one knows it by a REJ.
func TestSimulatedRejected(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	for ds[0].eps[1].Send([]byte("message"), nil) != fabric.ErrAgain {
	}
	pollTimes(t, ds[0], progressEvery) // the REQ
	if ds[0].eps[1].conn.State != cm.StateREQSent {
		t.Fatalf("state %d", ds[0].eps[1].conn.State)
	}
	refuseTimes(net, verbstest.CallCreateQP, 1, syscall.ENOMEM)
	pollTimes(t, ds[1], progressEvery)
	pollTimes(t, ds[0], progressEvery)
	if err := ds[0].eps[1].retry.Failure(); !errors.Is(err, syscall.ENOMEM) || !errors.Is(err, fabric.ErrNotSupported) {
		t.Errorf("%v", err)
	}
	if err := ds[0].takeover.Refusal(1); err != nil { // that is the peer's
		t.Error(err)
	}
	ds[0].eps[1].retry.err = datagrams.ErrResolving
	if err := ds[0].takeover.Refusal(1); err != datagrams.ErrResolving {
		t.Errorf("a reason of this process beside that of the peer: %v", err)
	}
	connectPeers(t, ds[0], ds[1])
	pollBoth(t, ds, "the peer acknowledges", func() bool { return ds[0].eps[1].retry.Failure() == nil })
}

// TestSimulatedNoRoute: the call that connects a queue pair fails for want of a route, at either process. Both errors say so, and
// not that the device refuses.
func TestSimulatedNoRoute(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.ENETUNREACH:  "has no route for the connection: verbs: ",
		syscall.EHOSTUNREACH: "has no route for the connection: verbs: ",
		syscall.ETIMEDOUT:    "refuses the connection: verbs: ",
	} {
		net := verbstest.NewSimulatedNetwork()
		ds := openEach(t, net, "poor0", "rich0")
		refuseOn(net, "poor0", verbstest.CallToRTR, errno)
		if err := ds[1].eps[0].Send([]byte("message"), nil); err != fabric.ErrAgain {
			t.Fatal(err)
		}
		poor, rich := &ds[0].eps[1].retry, &ds[1].eps[0].retry
		pollBoth(t, ds, "both know", func() bool { return poor.Failed > 0 && rich.Failed > 0 && rich.Rejected })
		for prefix, err := range map[string]error{"device poor0 ": poor.Failure(), "the device of the peer ": rich.Failure()} {
			if !strings.HasPrefix(err.Error(), "fabric: not supported: "+prefix+want) || !errors.Is(err, errno) {
				t.Errorf("%v: %v", errno, err)
			}
		}
		net.RefuseOn(nil)
		connectPeers(t, ds[1], ds[0])
	}
}

// TestSimulatedRefusedForGood: a connection that is refused for as long as the heartbeat is given up, with the reason.
func TestSimulatedRefusedForGood(t *testing.T) {
	for poor := range 2 {
		net := verbstest.NewSimulatedNetwork()
		net.SetDevice("poor0", func(d *verbstest.SimulatedDevice) { d.Attr.MaxQP = 3 })
		devices := []string{"rich0", "rich0"}
		devices[poor] = "poor0"
		ds := openEach(t, net, devices...)
		r := ds[poor].rails[0]
		own := r.RailAddress(ds[poor].cm.Responder.QueuePairs())
		if _, err := r.CreateQP(&own, true); err != nil { // the last one
			t.Fatal(err)
		}
		if err := ds[0].eps[1].Send([]byte("message"), nil); err != fabric.ErrAgain {
			t.Fatal(err)
		}
		retry := &ds[0].eps[1].retry
		pollBoth(t, ds, "the connection is refused", func() bool { return retry.Failed > 1 })
		retry.Since -= ds[0].settings.Heartbeat
		var got []fabric.Event
		waittest.Poll(t, "the connection is given up", func() bool {
			for _, d := range ds {
				endPause(d.eps[1-d.self])
			}
			got = pollTimes(t, ds[0], 1)
			pollTimes(t, ds[1], 1)
			return len(got) > 0
		})
		if len(got) != 1 || got[0].Kind != fabric.PeerDown {
			t.Fatalf("device %d: %+v", poor, got)
		}
		for _, want := range []error{fabric.ErrPeerDown, fabric.ErrNotSupported, syscall.ENOMEM} {
			if !errors.Is(got[0].Err, want) {
				t.Errorf("device %d: %v is not %v", poor, got[0].Err, want)
			}
		}
	}
}

// lastCallRefused is a series of attempts that the device of one process ends by refusing the last call.
type lastCallRefused struct {
	other  bool          // there is another transport
	down   bool          // the link of the device is down
	passed time.Duration // passes after the first failure
	most   int16         // failures before the peer is given up
}

// TestSimulatedLastCallRefused: a device creates queue pairs and refuses to connect them, at either process, when a connection
// that broke is made again. However often requests are sent and answered meanwhile, the number of failures and the time limit the
// attempts, and pauses grow. Another transport takes over if there is one, also when the heartbeat is over before. Without one,
// the peer is lost then.
func TestSimulatedLastCallRefused(t *testing.T) {
	for name, l := range map[string]lastCallRefused{
		"often":                         {other: true, most: liveness.MaxFailures},
		"for long":                      {other: true, passed: liveness.MaxSeries, most: liveness.MinFailures},
		"longer than the heartbeat":     {other: true, passed: tunables.DefaultHeartbeat, most: liveness.MinFailures},
		"without a link":                {other: true, down: true, passed: tunables.DefaultHeartbeat, most: liveness.MinFailures},
		"without a link, a while only":  {other: true, down: true, most: liveness.MaxFailures},
		"without another transport":     {passed: tunables.DefaultHeartbeat, most: liveness.MaxFailures},
		"without another, a while only": {most: liveness.MaxFailures},
	} {
		for _, call := range []verbstest.SimulatedCall{verbstest.CallToRTR, verbstest.CallToRTS} {
			for poor := range 2 {
				t.Run(fmt.Sprintf("%s, %v by %d", name, call, poor), func(t *testing.T) {
					t.Parallel()
					l.run(t, call, poor)
				})
			}
		}
	}
}

// goesOn reports whether attempts go on after liveness.MaxFailures.
func (l *lastCallRefused) goesOn() bool { return l.passed == 0 && (l.down || !l.other) }

func (l *lastCallRefused) run(t *testing.T, call verbstest.SimulatedCall, poor int) {
	net := verbstest.NewSimulatedNetwork()
	devices := []string{"rich0", "rich0"}
	devices[poor] = "poor0"
	ds := openEach(t, net, devices...)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	if l.other {
		ds[0].takeover.Await()
		ds[1].takeover.Await()
	}
	ds[poor].rails[0].portDown = l.down
	refuseOn(net, "poor0", call, syscall.ETIMEDOUT)
	net.BreakConnections()
	for i, d := range ds { // they find that it is broken
		if err := d.eps[1-i].Send([]byte("message"), nil); err != nil {
			t.Fatal(err)
		}
	}
	e := ds[poor].eps[1-poor]
	passed := false
	over := func(i int) bool { return ds[i].eps[1-i].leaving != nil || ds[i].eps[1-i].ended.Load() != nil }
	waittest.Poll(t, "the attempts end", func() bool {
		for i := range ds {
			l.poll(t, ds[i], i == poor)
		}
		if !passed && e.retry.Failed > 0 {
			passed = true
			e.retry.Since -= l.passed
		}
		return over(0) || over(1) || l.goesOn() && e.retry.Failed >= liveness.MaxFailures
	})
	if e.retry.Failed < liveness.MinFailures || e.retry.Failed > l.most && !l.goesOn() {
		t.Errorf("%d attempts have failed, want at most %d", e.retry.Failed, l.most)
	}
	lost := ds[0].eps[1].ended.Load() != nil || ds[1].eps[0].ended.Load() != nil
	if want := !l.other && !l.goesOn(); lost != want {
		t.Errorf("the peer is lost: %v, want %v", lost, want)
	}
	if l.goesOn() && (over(0) || over(1)) {
		t.Error("the peer is given up")
	}
	net.RefuseOn(nil)
	closeAtOnce(ds)
}

// poll polls a domain, and checks that it lets time pass after a failed attempt. Then it makes that time end.
func (l *lastCallRefused) poll(t *testing.T, d *domain, poor bool) {
	e := d.eps[1-d.self]
	failed, now := e.retry.Failed, d.clock.Elapsed()
	for _, ev := range pollTimes(t, d, 1) {
		// the one that gives up tells the other
		if l.other || ev.Kind != fabric.PeerDown || !errors.Is(ev.Err, syscall.ETIMEDOUT) {
			t.Fatalf("%+v", ev)
		}
	}
	pause, givenUp := liveness.RetryPause(e.retry.Failed), e.leaving != nil || e.ended.Load() != nil || d.cm.closing.Failures() > 0
	if poor && e.retry.Failed > failed && errors.Is(e.retry.Why, syscall.ETIMEDOUT) && !givenUp && e.retry.reqAt < now+pause {
		t.Errorf("after %d failures the next attempt is made after %v, want %v", e.retry.Failed, e.retry.reqAt-now, pause)
	}
	endPause(e)
}

// endPause ends the pause before the next attempt to connect to a peer, after one has failed.
func endPause(e *endpoint) {
	if e.retry.timer.IsSet() && e.retry.Failed > 0 {
		e.retry.reqAt = 0
		e.d.cm.scheduleConnecting(e)
		e.d.clock.ReadAt = 0
	}
}

// TestSimulatedRetryOutlivesAnswer: a process has scheduled its next attempt to connect. An answer to the peer that has to wait
// for the address of the peer does not cancel it.
func TestSimulatedRetryOutlivesAnswer(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	e := ds[0].eps[1]
	refuseTimes(net, verbstest.CallCreateQP, 1, syscall.ENOMEM)
	if err := e.Send([]byte("message"), nil); err != fabric.ErrAgain {
		t.Fatal(err)
	}
	pollBoth(t, ds[:1], "the connection is refused", func() bool { return e.retry.Failed > 0 })
	e.answered(datagrams.ErrResolving)
	if !e.retryPending() {
		t.Errorf("no attempt is scheduled: %+v", e.retry)
	}
	connectPeers(t, ds[0], ds[1])
}

// TestSimulatedAcceptedAfterRejected: the peer has refused a connection once, and then asked for it. While its confirmation is
// awaited, no time that passes ends the peer, which may compute.
func TestSimulatedAcceptedAfterRejected(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	e := b.eps[0]
	if err := e.Send([]byte("message"), nil); err != fabric.ErrAgain {
		t.Fatal(err)
	}
	pollBoth(t, ds[1:], "a REQ is sent", func() bool { return e.conn.State == cm.StateREQSent })
	refuseTimes(net, verbstest.CallCreateQP, 1, syscall.ENOMEM)
	pollBoth(t, ds, "the peer refuses", func() bool { return e.retry.Failed > 0 })
	e.retry.reqAt = liveness.Never // the peer asks first
	if err := a.eps[1].Send([]byte("message"), nil); err != fabric.ErrAgain {
		t.Fatal(err)
	}
	pollBoth(t, ds, "the REQ of the peer is answered", func() bool { return e.conn.State == cm.StateREPSent })
	e.retry.Since -= 2 * b.settings.Heartbeat
	for range 2 {
		letPass(b) // its timers run
		if evs := pollTimes(t, b, progressEvery); len(evs) > 0 {
			t.Fatalf("%+v", evs)
		}
	}
	connectPeers(t, b, a)
}

// TestSimulatedAttemptWhileClosing: a device refuses to connect a queue pair, and then to stop it, so that closing it takes long.
// Meanwhile Attempts lists the peer, whatever timers expire.
func TestSimulatedAttemptWhileClosing(t *testing.T) {
	net := verbstest.NewSimulatedAdapters(func() int { return 0 })
	ds := openEach(t, net, "poor0", "rich0")
	refuseCalls(net, "poor0", syscall.ETIMEDOUT, verbstest.CallToRTS, verbstest.CallToErr)
	d, e := ds[0], ds[0].eps[1]
	if err := e.Send([]byte("message"), nil); err != fabric.ErrAgain {
		t.Fatal(err)
	}
	pollBoth(t, ds, "the queue pair is being closed", func() bool { return e.teardown != nil })
	e.attempt.since -= maxOverdue
	for range 2 {
		letPass(d)
		pollTimes(t, d, progressEvery)
	}
	listed := 0
	d.takeover.Attempts(func(int, Attempt) { listed++ })
	if listed != 1 || e.teardown == nil {
		t.Errorf("the peer is listed %d times; its connection is being closed: %v", listed, e.teardown != nil)
	}
	net.RefuseOn(nil)
	connectPeers(t, d, ds[1])
}

// TestSimulatedDatagramsRefused: the queue pair for datagrams of a process has failed, and the device refuses to restart it. The
// process knows why it cannot connect. The peer does not take answers to probes for a sign that it can.
func TestSimulatedDatagramsRefused(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ds := openEach(t, net, "poor0", "rich0")
	poor, rich := ds[0], ds[1]
	refuseOn(net, "poor0", verbstest.CallToReset, syscall.EIO)
	if err := poor.rails[0].UDs()[0].Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	poor.cm.Socket.Failed = true
	if err := rich.eps[0].Send([]byte("message"), nil); err != fabric.ErrAgain {
		t.Fatal(err)
	}
	pollBoth(t, ds, "a REQ is sent", func() bool { return rich.eps[0].conn.State == cm.StateREQSent })
	letPass(rich)
	pollBoth(t, ds, "a probe is answered", func() bool { return rich.eps[0].retry.silence.Answered > 0 })
	rich.takeover.Attempts(func(_ int, a Attempt) {
		if a.Heard {
			t.Errorf("%+v", a)
		}
	})
	if err := poor.eps[1].Send([]byte("message"), nil); err != fabric.ErrAgain {
		t.Fatal(err)
	}
	pollBoth(t, ds[:1], "the connection is refused", func() bool { return poor.eps[1].retry.Failed > 0 })
	if err := poor.takeover.Refusal(1); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "ibv_modify_qp to RESET") {
		t.Error(err)
	}
	net.RefuseOn(nil)
	connectPeers(t, poor, rich)
}
