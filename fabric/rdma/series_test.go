//go:build linux

package rdma

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// failedAgain is a message or a transfer that fails with each new connection, with another status than that of lost packets.
type failedAgain struct {
	status   verbs.Status
	rails    int
	transfer bool // fails; otherwise a message does
	receive  bool // it is the receive of the message that fails
	beside   bool // transfers are carried out on the other rail
	other    bool // there is another transport
}

// failingBytes is the length of what fails.
const failingBytes = 3000

// TestFailsWithEachConnection: connections are made, short messages and keepalives are acknowledged, and one message or transfer
// fails with each connection. The peer is given up after the heartbeat, or another transport takes over. The error names the
// status, and not the MTU.
func TestFailsWithEachConnection(t *testing.T) {
	for name, f := range map[string]failedAgain{
		"message, remote operation":   {status: verbs.StatusRemoteOperation, rails: 1},
		"message, remote access":      {status: verbs.StatusRemoteAccess, rails: 1},
		"message, local length":       {status: verbs.StatusLocalLength, rails: 1},
		"message, another transport":  {status: verbs.StatusLocalLength, rails: 1, other: true},
		"message beside transfers":    {status: verbs.StatusRemoteOperation, rails: 2, beside: true},
		"receive, local length":       {status: verbs.StatusLocalLength, rails: 1, receive: true},
		"transfer, general":           {status: verbs.StatusGeneral, rails: 1, transfer: true},
		"transfer, response time-out": {status: verbs.StatusResponseTimeout, rails: 1, transfer: true},
		"transfer over two rails":     {status: verbs.StatusGeneral, rails: 2, transfer: true},
		"transfer, another transport": {status: verbs.StatusGeneral, rails: 1, transfer: true, other: true},
	} {
		t.Run(name, f.run)
	}
}

func (f failedAgain) run(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ds := openRails(t, net, Settings{}, f.rails)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	near, far := registerBoth(t, ds[0], ds[1])
	status := func(bytes int) verbs.Status {
		if bytes == failingBytes || bytes == failingBytes+messages.HeaderBytes {
			return f.status
		}
		return verbs.StatusSuccess
	}
	if f.other {
		ds[0].takeover.Await()
		ds[1].takeover.Await()
	}
	if f.receive {
		net.FailReceives(status)
	} else {
		net.Fail(status)
	}
	e := ds[0].eps[1]
	if f.transfer {
		if _, err := e.Write(near.mem[:failingBytes], near.region, far.region.Remote, 1); err != nil {
			t.Fatal(err)
		}
	} else {
		sendOne(t, ds[0], ds[1], failingBytes)
	}
	counts := ds[0] // counts the failures: the side whose request fails
	if f.receive {
		counts = ds[1]
	}
	err := f.await(t, ds, counts, func() {
		if f.beside && ds[0].poster.Transfers.Active.Load() == 0 {
			if _, err := e.Write(near.mem, near.region, far.region.Remote, 2); err != nil && !errors.Is(err, fabric.ErrPeerDown) {
				t.Fatal(err)
			}
		}
	})
	text := err.Error()
	if !f.other && !errors.Is(err, fabric.ErrPeerDown) || !errors.Is(err, f.status) || strings.Contains(text, "MTU") ||
		!strings.Contains(text, "16 attempts in a row failed") {
		t.Errorf("%v", err)
	}
	net.Fail(nil)
	net.FailReceives(nil)
	closeAtOnce(ds)
}

// registered is memory of a peer.
type registered struct {
	mem    []byte
	region fabric.Region
}

// registerBoth registers memory of two peers.
func registerBoth(t *testing.T, a, b *domain) (near, far registered) {
	t.Helper()
	near.mem, far.mem = make([]byte, 1<<20), make([]byte, 1<<20)
	var err1, err2 error
	near.region, err1 = a.Register(near.mem)
	far.region, err2 = b.Register(far.mem)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// await lets two peers send each other short messages until the one that counts the failures has given up the other one, and
// returns why. each is called before each Poll.
func (f failedAgain) await(t *testing.T, ds []*domain, counts *domain, each func()) (err error) {
	t.Helper()
	e, most := counts.eps[1-counts.self], int16(0)
	waittest.Poll(t, "the peer is given up", func() bool {
		each()
		for i, d := range ds {
			_ = d.eps[1-i].Send([]byte("short"), nil) // it may have no room, or be lost
			endPause(d.eps[1-i])
			for _, ev := range pollTimes(t, d, 1) {
				if ev.Kind == fabric.PeerDown && d == counts {
					err = ev.Err
				}
			}
		}
		if e.leaving != nil {
			err = e.leaving.err
		}
		if e.retry.Failed == liveness.MaxFailures-1 && most < e.retry.Failed {
			counts.clock.Ran += counts.settings.Heartbeat // the attempts last that long
		}
		most = max(most, e.retry.Failed)
		if e.conn.Epoch > 20*liveness.MaxFailures {
			t.Fatalf("after %d connections, at most %d failures were counted in a row", e.conn.Epoch, most)
		}
		return err != nil
	})
	return err
}

// TestLossFlushesReceives: the device of a connection with a receive queue of its own flushes the receives when packets are lost.
// That they were flushed is not why the connection broke.
func TestLossFlushesReceives(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	net.SetDevice("no SRQ", func(d *verbstest.SimulatedDevice) { d.Attr.MaxSRQ = 0 })
	ds := openOn(t, net, Settings{Devices: []string{"no SRQ"}}, 2)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	net.LoseLarge(500)
	sendOne(t, ds[0], ds[1], 700)
	r := &ds[0].eps[1].retry
	pollBoth(t, ds, "the connection breaks", func() bool { return r.Failed > 0 })
	if !r.IsLossy() || r.Lost != 700+messages.HeaderBytes {
		t.Errorf("packets of %d bytes were lost: %v", r.Lost, r.Why)
	}
	net.LoseLarge(0)
	closeAtOnce(ds)
}

// TestLossAfterLongConnection: that a connection has worked for longer than a heartbeat ends the series before, and does not hide
// that it has lost a long packet.
func TestLossAfterLongConnection(t *testing.T) {
	_, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	connectPeers(t, ds[0], ds[1])
	d, e := ds[0], ds[0].eps[1]
	e.keepalive.Age, e.retry.Failed, e.retry.Lost = int16(d.liveness.MaxMissed)+1, 2, 300
	e.countLost(e.lanes.Queues[0], &posting.Request{Bytes: 1024}, verbs.StatusRetryExceeded)
	e.declareBroken(verbs.StatusRetryExceeded)
	pollBoth(t, ds, "the connection is closed", func() bool {
		return e.retry.Failed != 0 && e.lanes.Queues == nil || e.conn.Epoch > 1
	})
	if e.retry.Failed != 1 || e.retry.Lost != 1024 {
		t.Errorf("%d failures in a row, and packets of %d bytes were lost", e.retry.Failed, e.retry.Lost)
	}
	closeAtOnce(ds)
}

// TestGivenUp: the peer of a process that gives it up ends as well, and knows why, also if it does not receive the datagram that
// says so: its next request is answered with the reason.
func TestGivenUp(t *testing.T) {
	for _, lost := range []bool{false, true} {
		net := verbstest.NewSimulatedNetwork()
		ds := openRails(t, net, Settings{}, 1)
		connectPeers(t, ds[0], ds[1])
		connectPeers(t, ds[1], ds[0])
		d, e, other := ds[0], ds[0].eps[1], ds[1].eps[0]
		net.DropDatagrams(func() bool { return lost })
		e.retry.Failed, e.retry.Since = liveness.MaxFailures-1, d.clock.Ran-d.settings.Heartbeat
		if e.attemptFailed(fmt.Errorf("the connection broke: %w", verbs.StatusRemoteOperation)) {
			t.Fatal("the peer is not given up")
		}
		var down error
		waittest.Poll(t, "the peer is lost", func() bool {
			for _, ev := range pollTimes(t, d, 1) {
				down = ev.Err
			}
			return down != nil
		})
		net.DropDatagrams(nil)
		if lost {
			other.declareBroken(verbs.ErrState)
		}
		var told error
		waittest.Poll(t, "the other process is told", func() bool {
			pollTimes(t, d, 1)
			for _, ev := range pollTimes(t, ds[1], 1) {
				told = ev.Err
			}
			return told != nil
		})
		want := "fabric/rdma: peer 0: fabric: peer is down: its process has given up the connection: " +
			strings.TrimPrefix(down.Error(), "fabric/rdma: connect to peer 1: fabric: peer is down: ")
		if !errors.Is(told, fabric.ErrPeerDown) || errors.Is(told, fabric.ErrPeerClosed) || told.Error() != want ||
			!strings.Contains(want, "16 attempts in a row failed") || !strings.Contains(want, verbs.StatusRemoteOperation.String()) {
			t.Errorf("datagram lost %v: %v; the peer says %v", lost, told, down)
		}
	}
}

// TestGivenUpForLostPackets: the peer of a process that gives it up because large packets are lost is told the status, and what
// to do, however long the error is.
func TestGivenUpForLostPackets(t *testing.T) {
	ds := openRails(t, verbstest.NewSimulatedNetwork(), Settings{}, 1)
	connectPeers(t, ds[0], ds[1])
	d, e := ds[0], ds[0].eps[1]
	r := &e.retry
	r.Failed, r.Since, r.Lost, e.mtu = math.MaxInt16, d.clock.Ran-100*time.Hour-10*time.Millisecond, 4096, smallMTU
	broke := &verbs.CompletionError{Status: verbs.StatusRetryExceeded, QPN: 1<<24 - 1, ID: 1<<64 - 1, VendorErr: 1<<32 - 1}
	if e.attemptFailed(fmt.Errorf("the connection broke: %w", broke)) {
		t.Fatal("the peer is not given up")
	}
	var down, told error
	waittest.Poll(t, "both processes know", func() bool {
		for i, err := range []*error{&down, &told} {
			for _, ev := range pollTimes(t, ds[i], 1) {
				*err = ev.Err
			}
		}
		return down != nil && told != nil
	})
	const (
		attempts = `32767 attempts in a row failed in 100h0m\S+, the last one: `
		here     = `^fabric/rdma: connect to peer 1: fabric: peer is down: ` + attempts + `the connection broke: verbs: ` +
			`queue pair 0xffffff, request 18446744073709551615: retries exceeded: the peer does not respond ` +
			`\(vendor error 0xffffffff\); small packets arrive, large ones do not, such as those of 4096 bytes: ` +
			`check the MTU of the network, or set IBRUN_RDMA_MTU=256$`
		there = `^fabric/rdma: peer 0: fabric: peer is down: its process has given up the connection: ` + attempts +
			`retries exceeded: the peer does not respond; large packets are lost: set IBRUN_RDMA_MTU=256$`
	)
	for pattern, err := range map[string]error{here: down, there: told} {
		if !regexp.MustCompile(pattern).MatchString(err.Error()) {
			t.Errorf("%v, want a match of %s", err, pattern)
		}
	}
	if !errors.Is(down, verbs.StatusRetryExceeded) {
		t.Errorf("the status of %v is unknown", down)
	}
}
