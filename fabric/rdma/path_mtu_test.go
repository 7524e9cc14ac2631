//go:build linux

package rdma

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestLargePacketsLost: a network drops packets of the MTU of both ports, and passes those of Ethernet. Messages and reads of any
// length arrive, also with small messages between them, over connections with smaller packets. One line says so.
func TestLargePacketsLost(t *testing.T) {
	net, ds := openPorts(t, Settings{}, roce("10.0.0.1", verbs.MTU4096), roce("10.0.0.2", verbs.MTU4096))
	var said []string
	ds[0].cm.report = func(text string) { said = append(said, text) }
	meet(t, ds[0], ds[1])
	if m := attr(t, ds[0], 1).MTU; m != verbs.MTU4096 {
		t.Fatalf("at first the MTU is %v", m)
	}
	net.LoseLarge(1500)
	src, dst := bytes.Repeat([]byte{7}, 100_000), make([]byte, 100_000)
	far, err1 := ds[1].Register(src)
	near, err2 := ds[0].Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if _, err := ds[0].eps[1].Read(dst, near, far.Remote, 1); err != nil {
		t.Fatal(err)
	}
	got, sent, read := 0, 0, false
	sizes := []int{4000, 10, 5000, 10}
	waittest.Poll(t, "all messages arrive", func() bool {
		if sent < len(sizes) && ds[0].eps[1].Send(make([]byte, sizes[sent]), nil) == nil {
			sent++
		}
		for i, d := range ds {
			for _, ev := range pollTimes(t, d, 1) {
				switch {
				case i == 0 && ev.Kind == fabric.Done && ev.Err == nil:
					read = true
				case i == 1 && ev.Kind == fabric.Message && len(ev.Data) == sizes[got]:
					got++
				default:
					t.Fatalf("peer %d: %+v", i, ev)
				}
			}
		}
		return got == len(sizes) && read
	})
	if !bytes.Equal(src, dst) {
		t.Error("the memory that was read differs")
	}
	if a, b := attr(t, ds[0], 1).MTU, attr(t, ds[1], 0).MTU; a != verbs.MTU1024 || b != verbs.MTU1024 {
		t.Errorf("the MTU is %v and %v", a, b)
	}
	if len(said) != 1 || !strings.Contains(said[0], "IBRUN_RDMA_MTU=1024") {
		t.Errorf("reported: %q", said)
	}
}

// TestAllLargePacketsLost: if also packets of 1,024 bytes are lost, the peer is lost, even if small messages arrive all the time.
// The error says why.
func TestAllLargePacketsLost(t *testing.T) {
	net, ds := openPorts(t, Settings{}, roce("10.0.0.1", verbs.MTU4096), roce("10.0.0.2", verbs.MTU4096))
	a, b := ds[0], ds[1]
	meet(t, a, b)
	net.LoseLarge(500)
	mem := make([]byte, 100_000)
	far, err1 := b.Register(mem)
	near, err2 := a.Register(make([]byte, 100_000))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if _, err := b.eps[0].Write(mem, far, near.Remote, 1); err != nil {
		t.Fatal(err)
	}
	var down error
	waittest.Poll(t, "the peer is lost", func() bool {
		_ = b.eps[0].Send([]byte("small"), nil)
		endPause(b.eps[0])
		if r := &b.eps[0].retry; r.Failed == liveness.MaxFailures-1 {
			r.Since -= b.settings.Heartbeat // the attempts last that long
		}
		pollTimes(t, a, 1)
		for _, ev := range pollTimes(t, b, 1) {
			if ev.Kind == fabric.PeerDown {
				down = ev.Err
			}
		}
		return down != nil
	})
	if !errors.Is(down, fabric.ErrPeerDown) || !strings.Contains(down.Error(), "large ones do not") {
		t.Errorf("%v", down)
	}
}

// lossyPair returns two peers that are connected, over a network that loses packets with more than so many bytes from now on.
func lossyPair(t *testing.T, set Settings, largest int, forever bool) (a, b *domain) {
	t.Helper()
	net, ds := openPorts(t, set, roce("10.0.0.1", verbs.MTU4096), roce("10.0.0.2", verbs.MTU4096))
	meet(t, ds[0], ds[1])
	net.RetransmitForever(forever)
	net.LoseLarge(largest)
	return ds[0], ds[1]
}

// awaitDown lets a and b send each other short messages until a has lost b, and returns why. each is called after each Poll.
func awaitDown(t *testing.T, a, b *domain, each func()) (down error) {
	t.Helper()
	state := func() string { return fmt.Sprintf("%+v, %+v", a.eps[b.self].retry, a.eps[b.self].keepalive) }
	defer waittest.LogIfFailed(t, state)
	waittest.Poll(t, "the peer is lost", func() bool {
		_ = a.eps[b.self].Send([]byte("short"), nil)
		_ = b.eps[a.self].Send([]byte("short"), nil)
		pollTimes(t, b, 1)
		for _, ev := range pollTimes(t, a, 1) {
			if ev.Kind == fabric.PeerDown {
				down = ev.Err
			}
		}
		each()
		return down != nil
	})
	if text := down.Error(); !errors.Is(down, fabric.ErrPeerDown) || !strings.Contains(text, "large ones do not") ||
		!strings.Contains(text, "IBRUN_RDMA_MTU") {
		t.Errorf("%v", down)
	}
	return down
}

// sendOne sends a message of n bytes as soon as there is a credit.
func sendOne(t *testing.T, a, b *domain, n int) {
	t.Helper()
	waittest.Poll(t, "there is a credit for the message", func() bool {
		err := a.eps[b.self].Send(make([]byte, n), nil)
		if err != nil && err != fabric.ErrAgain {
			t.Fatal(err)
		}
		pollTimes(t, b, 1)
		pollTimes(t, a, 1)
		return err == nil
	})
}

// TestShorterPacketsLost: if a network loses packets that are shorter than what counts as large, the peer is lost all the same.
// That each new connection carries shorter ones is not progress.
func TestShorterPacketsLost(t *testing.T) {
	a, b := lossyPair(t, Settings{}, 500, false)
	sendOne(t, a, b, 700)
	awaitDown(t, a, b, func() {
		if r := &a.eps[1].retry; r.Failed == liveness.MaxLargeLost {
			r.Since -= a.settings.Heartbeat // the attempts last that long
		}
	})
}

// TestLargeLostForTheHeartbeat: connections that break one after the other count against the heartbeat, however few they are: a
// device may retransmit for seconds before each of them breaks.
func TestLargeLostForTheHeartbeat(t *testing.T) {
	const heartbeat = time.Hour
	a, b := lossyPair(t, Settings{Heartbeat: heartbeat, MTU: 1024}, 500, false)
	sendOne(t, a, b, 4000)
	e, breaks, most := a.eps[1], int16(0), int16(0)
	awaitDown(t, a, b, func() {
		if e.retry.Failed > breaks { // as if the device had needed a third of the heartbeat
			a.clock.Ran += heartbeat / 3
		}
		breaks = e.retry.Failed
		most = max(most, breaks)
	})
	if most < 4 || most > 5 {
		t.Errorf("the peer was lost after %d connections", most)
	}
}

// TestStoppedBetweenFailures: this process is stopped for much longer than the heartbeat each time that a connection has broken.
// That time does not count: the peer is not lost after two failures, and packets do not get smaller after two.
func TestStoppedBetweenFailures(t *testing.T) {
	const heartbeat = time.Hour
	for _, mtu := range []int{1024, 4096} {
		a, b := lossyPair(t, Settings{Heartbeat: heartbeat, MTU: mtu}, 500, false)
		sendOne(t, a, b, 4000)
		e, breaks := a.eps[1], int16(0)
		waittest.Poll(t, "connections break", func() bool {
			pollTimes(t, b, 1)
			for _, ev := range pollTimes(t, a, 1) {
				t.Fatalf("MTU %d, after %d failures: %+v", mtu, e.retry.Failed, ev)
			}
			if e.retry.Failed > breaks {
				a.clock.Start = a.clock.Start.Add(-10 * heartbeat)
			}
			breaks = e.retry.Failed
			if e.mtu != 0 && (mtu == 1024 || breaks < liveness.MaxLargeLost) {
				t.Fatalf("MTU %d, after %d failures: packets are limited to %v", mtu, breaks, e.mtu)
			}
			return breaks > liveness.MaxLargeLost
		})
		if lasts := a.clock.Ran - e.retry.Since; lasts >= heartbeat/liveness.MTUShare {
			t.Errorf("MTU %d: the series lasts %v", mtu, lasts)
		}
	}
}

// TestRunning: time in which a process polls counts, and time in which it does not counts as an interval.
func TestRunning(t *testing.T) {
	var c liveness.Clock
	for _, at := range []struct{ now, ran time.Duration }{
		{10, 10}, {30, 30}, {130, 130}, {300, 230}, {100_000, 330}, {100_001, 331},
	} {
		if got := c.Running(at.now, 100); got != at.ran {
			t.Errorf("at %d it has run for %d, want %d", at.now, got, at.ran)
		}
	}
}

// TestLargeRetransmittedForever: if a device retransmits lost packets without limit, the connection is made again with smaller
// packets within the heartbeat. If these are lost as well, the peer is lost within two heartbeats.
func TestLargeRetransmittedForever(t *testing.T) {
	for _, largest := range []int{1500, 500} {
		a, b := lossyPair(t, Settings{Heartbeat: time.Hour}, largest, true)
		sendOne(t, a, b, 4000)
		intervals, most := 0, a.liveness.MaxMissed
		pass := func() {
			intervals++
			letPass(a)
			letPass(b)
		}
		if largest < 1024 {
			most *= 2
			awaitDown(t, a, b, pass)
		} else {
			waittest.Poll(t, "the message arrives", func() bool {
				pass()
				pollTimes(t, a, 1)
				evs := pollTimes(t, b, 1)
				return len(evs) == 1 && len(evs[0].Data) == 4000
			})
		}
		if intervals < a.liveness.MaxQueued || intervals > most {
			t.Errorf("packets of more than %d bytes are lost: it took %d intervals; a heartbeat has %d", largest, intervals,
				a.liveness.MaxMissed)
		}
	}
}

// TestLongBehindShort: a device retransmits a long message without limit. Before it is a short one that has arrived, but has no
// completion of its own. The long one counts as lost all the same: the next connection has small packets, and carries both. That
// is so too if the connection has worked for longer than a heartbeat before.
func TestLongBehindShort(t *testing.T) {
	for _, age := range []int16{0, math.MaxInt16 - 10_000} {
		a, b := lossyPair(t, Settings{Heartbeat: time.Hour}, 1500, true)
		e, got := a.eps[1], 0
		for e.msgs.Out.Grant-e.msgs.Out.Sent < 3 {
			sendOne(t, a, b, 10)
		}
		pollBoth(t, []*domain{a}, "all are acknowledged", func() bool { return e.lanes.Queues[0].InFlight() == 0 })
		pollTimes(t, b, enoughPolls)
		for _, n := range []int{10, 10, 4000} {
			if err := e.Send(make([]byte, n), nil); err != nil {
				t.Fatal(err)
			}
		}
		if q := e.lanes.Queues[0]; q.InFlight() != 3 || q.At(q.Oldest()+1).Signaled {
			t.Fatal("the second message has a completion")
		}
		e.keepalive.Age = age
		intervals := 0
		waittest.Poll(t, "the messages arrive", func() bool {
			letPass(a)
			letPass(b)
			intervals++
			for _, ev := range pollTimes(t, a, 1) {
				t.Fatalf("%+v", ev)
			}
			got += len(pollTimes(t, b, 1))
			return got == 3
		})
		if most := a.liveness.MaxQueued + a.liveness.MaxMissed/10; intervals > most || e.mtu != smallMTU {
			t.Errorf("it took %d intervals, want at most %d; packets are limited to %v", intervals, most, e.mtu)
		}
	}
}

// TestBreaksFarApart: connections that break again after more than a heartbeat do not lose a peer if all has arrived in between.
// Only keepalives have been sent then.
func TestBreaksFarApart(t *testing.T) {
	_, ds := openSimulated(t, Settings{Devices: []string{"a"}, Heartbeat: time.Hour}, 2)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	for k := range 3 {
		for i, d := range ds { // both count it, and only one of them sends a message over the next connection
			d.eps[1-i].declareBroken(verbs.ErrState)
		}
		waittest.Poll(t, "the connection is made again", func() bool {
			for i, d := range ds {
				if evs := pollTimes(t, d, 1); len(evs) > 0 {
					t.Fatalf("peer %d, break %d: %+v", i, k, evs)
				}
			}
			return ds[0].eps[1].conn.State == cm.StateEstablished && ds[1].eps[0].conn.State == cm.StateEstablished
		})
		for range 2 * ds[0].liveness.MaxMissed {
			for _, d := range ds {
				letPass(d)
				pollTimes(t, d, 1)
			}
		}
	}
}

// TestLostFarApart: a connection that has worked for longer than the heartbeat ends a series of failures, also if nothing that it
// has carried was as long as what was lost before.
func TestLostFarApart(t *testing.T) {
	_, ds := openSimulated(t, Settings{Devices: []string{"a"}, Heartbeat: time.Hour}, 2)
	connectPeers(t, ds[0], ds[1])
	d, e := ds[0], ds[0].eps[1]
	for range 3 {
		for range 2 * d.liveness.MaxMissed {
			letPass(d)
			pollTimes(t, d, 1)
			e.retry.Failed, e.retry.Lost = max(e.retry.Failed, 1), 4096 // keepalives are acknowledged as well
		}
		e.declareBroken(verbs.StatusRetryExceeded)
		waittest.Poll(t, "the connection is made again", func() bool {
			for i, x := range ds {
				if evs := pollTimes(t, x, 1); len(evs) > 0 {
					t.Fatalf("peer %d: %+v", i, evs)
				}
			}
			return e.conn.State == cm.StateEstablished
		})
		if e.retry.Failed > 1 {
			t.Errorf("%d failures in a row", e.retry.Failed)
		}
	}
}

// TestRefusedAfterLoss: that packets were lost before does not make the refusal of a call the loss of packets.
func TestRefusedAfterLoss(t *testing.T) {
	_, ds := openPorts(t, Settings{}, roce("10.0.0.1", verbs.MTU4096), roce("10.0.0.2", verbs.MTU4096))
	meet(t, ds[0], ds[1])
	d, e := ds[0], ds[0].eps[1]
	lost := &posting.Request{Bytes: 5000}
	e.countLost(e.lanes.Queues[0], lost, verbs.StatusRetryExceeded)
	// A control message tells nothing about packets.
	e.countLost(e.lanes.Queues[0], &posting.Request{}, verbs.StatusRetryExceeded)
	if e.retry.Lost != 4096 {
		t.Errorf("packets of %d bytes were lost, want 4096", e.retry.Lost)
	}
	e.retry.Failed, e.retry.Since = liveness.MaxLargeLost, d.clock.Ran-2*d.settings.Heartbeat
	if !e.attemptFailed(syscall.ENOMEM) || e.mtu != 0 || d.cm.closing.Failures() > 0 {
		t.Errorf("a refusal: the MTU is limited to %v, %d failures", e.mtu, d.cm.closing.Failures())
	}
	if !e.attemptFailed(verbs.StatusRetryExceeded) || e.mtu != smallMTU {
		t.Errorf("a loss: the MTU is limited to %v", e.mtu)
	}
	if e.attemptFailed(verbs.StatusRetryExceeded) {
		t.Error("the peer is not lost after the heartbeat")
	}
}

// TestLostOnAnotherLane: a request that is lost on another lane than that of messages tells nothing about the length of packets.
func TestLostOnAnotherLane(t *testing.T) {
	ds := openRails(t, verbstest.NewSimulatedNetwork(), Settings{}, 2)
	connectPeers(t, ds[0], ds[1])
	e := ds[0].eps[1]
	if len(e.lanes.Queues) != 2 {
		t.Fatalf("%d lanes, want 2", len(e.lanes.Queues))
	}
	if e.countLost(e.lanes.Queues[1], &posting.Request{Bytes: 4096}, verbs.StatusRetryExceeded); e.retry.Lost != 0 {
		t.Errorf("packets of %d bytes were lost", e.retry.Lost)
	}
}

// TestStuckLane: a request that a device retransmits without limit on one rail is moved to another after the time of a heartbeat,
// although messages are exchanged over that one all the time.
func TestStuckLane(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ds := openRails(t, net, Settings{Heartbeat: time.Hour}, 2)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	checkLanes(t, ds, cm.Lane{Rail: 0, Path: 0}, cm.Lane{Rail: 1, Path: 0})
	net.RetransmitForever(true)
	net.Separate(func(from, _ string) bool { return from[0] == 'b' })
	r := newReader(t, ds[0], ds[1], 4<<20)
	r.start()
	intervals := 0
	waittest.Poll(t, "the read ends", func() bool {
		for i, d := range ds {
			if intervals%8 == 0 { // a Poll that returns messages does nothing else
				_ = d.eps[1-i].Send([]byte("short"), nil)
			}
			letPass(d)
			for _, ev := range pollTimes(t, d, 1) {
				if ev.Kind != fabric.Message {
					r.end(&ev)
				}
			}
		}
		intervals++
		return !r.running
	})
	if least := ds[0].liveness.MaxMissed; intervals < least || intervals > 3*least/2 {
		t.Errorf("it took %d intervals; a heartbeat has %d", intervals, least)
	}
}

// TestStuckLaneAmongBusy: the lane whose request is not carried out is left out, not one that is merely busy.
func TestStuckLaneAmongBusy(t *testing.T) {
	ds := openRails(t, verbstest.NewSimulatedNetwork(), Settings{Heartbeat: time.Hour}, 2)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	checkLanes(t, ds, cm.Lane{Rail: 0, Path: 0}, cm.Lane{Rail: 1, Path: 0})
	d, e := ds[0], ds[0].eps[1]
	visit := func() {
		e.visit()
		e.keepalive.Alive = true // messages are exchanged all the time
	}
	visit()
	for range d.liveness.MaxMissed {
		if d.cm.closing.Failures() > 0 {
			t.Fatal("the connection breaks too early")
		}
		if _, err := d.completions.pollSends(d.rails[0]); err != nil { // and not of the other rail
			t.Fatal(err)
		}
		d.poster.Mu.Lock()
		for _, q := range e.lanes.Queues {
			if q.InFlight() == 0 || q.IsMessages() {
				if !d.poster.Probe(q) {
					t.Fatal("no request can be posted")
				}
			}
		}
		d.poster.Mu.Unlock()
		d.poster.Ring(&e.lanes)
		visit()
	}
	if visit(); d.cm.closing.Failures() == 0 || e.avoided != cm.OfRail(1) {
		t.Errorf("%d failures, the lanes %b are left out", d.cm.closing.Failures(), e.avoided)
	}
}
