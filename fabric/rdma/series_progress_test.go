//go:build linux

package rdma

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestReceiveOfControlFails: the receive of a credit update fails once, and the peer sends no data messages afterwards. Its next
// control message shows that none is missing, so the series ends.
func TestReceiveOfControlFails(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ds := openRails(t, net, Settings{}, 1)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	failed := false
	net.FailReceives(func(bytes int) verbs.Status {
		if bytes != messages.HeaderBytes || failed {
			return verbs.StatusSuccess
		}
		failed = true
		return verbs.StatusLocalLength
	})
	r, arrived, most := &ds[0].eps[1].retry, 0, 0
	waittest.Poll(t, "messages arrive after the failure", func() bool {
		_ = ds[0].eps[1].Send([]byte("short"), nil) // there may be no credit, or no connection
		pollTimes(t, ds[0], 1)
		n := len(pollTimes(t, ds[1], 1))
		if r.Failed > 0 {
			arrived += n
		}
		most = max(most, int(r.Failed))
		return most > 0 && (r.Failed == 0 || arrived > 1000)
	})
	if most != 1 || r.Failed != 0 {
		t.Errorf("after %d messages %d attempts have failed, at most %d: %+v", arrived, r.Failed, most, r.Unfinished)
	}
}

// TestPeerNoticesFirst: a connection has worked for longer than a heartbeat, and the peer notices first that it breaks. Its REQ
// closes the connection here, which ends the series before.
func TestPeerNoticesFirst(t *testing.T) {
	ds := openRails(t, verbstest.NewSimulatedNetwork(), Settings{}, 1)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	e := ds[0].eps[1]
	e.keepalive.Age, e.retry.Failed, e.retry.Lost = int16(ds[0].liveness.MaxMissed)+1, 2, 4096 // nothing as long is sent
	epoch := e.conn.Epoch
	ds[1].eps[0].declareBroken(verbs.ErrState)
	pollBoth(t, ds, "the connection is made again", func() bool {
		return e.conn.Epoch > epoch && e.conn.State == cm.StateEstablished
	})
	if e.retry.Failed != 0 || e.retry.Lost != 0 {
		t.Errorf("%d failures in a row, and packets of %d bytes were lost", e.retry.Failed, e.retry.Lost)
	}
}

// TestUnfinishedAfterLongConnection: a connection breaks that has worked for longer than a heartbeat. That ends the series
// before, and does not hide what the connection has not carried out.
func TestUnfinishedAfterLongConnection(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ds := openRails(t, net, Settings{}, 1)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	near, far := registerBoth(t, ds[0], ds[1])
	d, e := ds[0], ds[0].eps[1]
	pollBoth(t, ds, "there is a credit", func() bool { return e.msgs.Out.HasCredit() && e.lanes.Queues[0].InFlight() == 0 })
	net.SetPaused(true)
	seq := e.msgs.Out.Sent
	if err := e.Send([]byte("message"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Write(near.mem, near.region, far.region.Remote, 1); err != nil {
		t.Fatal(err)
	}
	e.keepalive.Age, e.retry.Failed = int16(d.liveness.MaxMissed)+1, 2
	e.declareBroken(verbs.ErrState)
	pollBoth(t, ds[:1], "the connection is closed", func() bool { return e.lanes.Queues == nil || e.conn.State == cm.StateREQSent })
	want := liveness.Unfinished{Seq: seq, Message: true, Transfer: true}
	if e.retry.Failed != 1 || e.retry.Unfinished != want {
		t.Errorf("%d failures in a row, unfinished: %+v, want %+v", e.retry.Failed, e.retry.Unfinished, want)
	}
	net.SetPaused(false)
	pollBoth(t, ds, "the series ends", func() bool { return e.retry.Failed == 0 && d.poster.Transfers.Active.Load() == 0 })
}

// TestProgressOverOneLane: over a connection with two lanes most of a transfer was carried out, which was not kept. Then a part
// is carried out over a connection with one lane, which is kept. That ends the series, although it is less.
func TestProgressOverOneLane(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	const piece = 1 << 16
	ds := openRails(t, net, Settings{Piece: piece}, 2)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	checkLanes(t, ds, cm.Lane{Rail: 0, Path: 0}, cm.Lane{Rail: 1, Path: 0})
	near, far := registerBoth(t, ds[0], ds[1])
	d, e := ds[0], ds[0].eps[1]
	net.SetPaused(true)
	if _, err := e.Write(near.mem, near.region, far.region.Remote, 1); err != nil {
		t.Fatal(err)
	}
	o := e.lanes.Ops.First
	o.Done = o.Bytes - 1
	e.declareBroken(e.avoid(e.lanes.Queues[1], verbs.ErrState))
	pollBoth(t, ds[:1], "the connection is closed", func() bool { return e.retry.Failed > 0 })
	pieces := 0
	net.Fail(func(bytes int) verbs.Status {
		if bytes != piece {
			return verbs.StatusSuccess
		}
		if pieces++; pieces == 2 {
			return verbs.StatusGeneral
		}
		return verbs.StatusSuccess
	})
	net.SetPaused(false)
	pollBoth(t, ds, "the next connection breaks", func() bool { return errors.Is(e.retry.Why, verbs.StatusGeneral) })
	if e.retry.Failed != 1 || o.Done == 0 || o.Done == o.Bytes {
		t.Errorf("%d failures in a row; %d bytes of %d were carried out", e.retry.Failed, o.Done, o.Bytes)
	}
	pollBoth(t, ds, "the transfer ends", func() bool { return d.poster.Transfers.Active.Load() == 0 })
}

// TestTransferWhileLeaving: a peer is handed over to another transport, and its last completions have not arrived. A transfer
// that begins meanwhile does not end those whose memory the device may still access, nor does Abandon. All end once the queue
// pairs are closed.
func TestTransferWhileLeaving(t *testing.T) {
	for _, abandoned := range []bool{false, true} {
		t.Run(fmt.Sprintf("abandoned %v", abandoned), func(t *testing.T) { testTransferWhileLeaving(t, abandoned) })
	}
}

func testTransferWhileLeaving(t *testing.T, abandoned bool) {
	net := verbstest.NewSimulatedNetwork()
	ds := openRails(t, net, Settings{}, 1)
	connectPeers(t, ds[0], ds[1])
	near, far := registerBoth(t, ds[0], ds[1])
	d, e := ds[0], ds[0].eps[1]
	d.takeover.Await()
	net.SetPaused(true)
	write := func(token uint64) {
		if _, err := e.Write(near.mem, near.region, far.region.Remote, token); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	if e.lanes.Ops.First.Posted == 0 {
		t.Fatal("the transfer is not in flight")
	}
	d.takeover.leave(e, verbs.ErrState)
	e.tearDown()
	write(2)
	d.cm.connectRequested()
	if abandoned {
		d.takeover.Abandon(1)
	}
	if n := d.poster.Transfers.Active.Load(); n != 2 {
		t.Errorf("%d transfers are active before the queue pairs are closed, want 2", n)
	}
	var ended []uint64
	waittest.Poll(t, "the transfers end", func() bool {
		for _, ev := range pollTimes(t, d, 1) {
			if ev.Kind != fabric.Done || !errors.Is(ev.Err, fabric.ErrNotSupported) || len(e.lanes.Queues) != 0 {
				t.Fatalf("%+v", ev)
			}
			ended = append(ended, ev.Token)
		}
		return len(ended) == 2
	})
	if !slices.Equal(ended, []uint64{1, 2}) {
		t.Errorf("transfers %d have ended", ended)
	}
	if abandoned {
		net.SetPaused(false)
		closeAtOnce(ds)
		return
	}
	write(3)
	if got := pollTimes(t, d, enoughPolls); len(got) != 1 || got[0].Token != 3 || !errors.Is(got[0].Err, fabric.ErrNotSupported) {
		t.Errorf("after the end: %+v", got)
	}
	net.SetPaused(false)
	closeAtOnce(ds)
}
