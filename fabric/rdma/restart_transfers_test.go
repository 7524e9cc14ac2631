//go:build linux

package rdma

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/verbs"
)

// TestSimulatedTransferEndsOnce: of two reads the later one ends first, since it uses another rail; then the connection breaks.
// The read that has ended is neither repeated nor reported twice.
func TestSimulatedTransferEndsOnce(t *testing.T) {
	_, ds := openSimulated(t, Settings{Devices: []string{"a", "b"}}, 2)
	a, b := ds[0], ds[1]
	connectPeers(t, a, b)
	src, dst := []byte("what is read"), make([]byte, 24)
	far, err1 := b.Register(src)
	near, err2 := a.Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	stuck := b.eps[0].lanes.Queues[1].QP
	if err := stuck.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		ep := a.WithRail(a.eps[1], 1-i)
		if _, err := ep.Read(dst[12*i:][:12], near, far.Remote, uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	got := pollTimes(t, a, enoughPolls)
	if len(got) != 1 || got[0].Kind != fabric.Done || got[0].Token != 1 || string(dst[12:]) != string(src) {
		t.Fatalf("%+v, %q", got, dst)
	}
	clear(dst)
	breakConn(t, a, b)
	got = nil
	for range enoughPolls {
		got = append(got, pollTimes(t, a, 1)...)
		pollTimes(t, b, 1)
	}
	if len(got) != 1 || got[0].Token != 0 || got[0].Err != nil || string(dst[:12]) != string(src) {
		t.Errorf("after the break: %+v, %q", got, dst)
	}
	if dst[12] != 0 {
		t.Errorf("the read that had ended was repeated: %q", dst[12:])
	}
	if a.poster.Transfers.Active.Load() != 0 {
		t.Errorf("%d transfers have not ended", a.poster.Transfers.Active.Load())
	}
}

// TestRestartTransfers: the first of three transfers has failed, the second has ended and the third is in progress. What was not
// kept of the third is posted again. It is unfinished, although the oldest one has ended.
func TestRestartTransfers(t *testing.T) {
	d, bad := &domain{}, errors.New("bad")
	d.poster.Transfers.Active.Store(2)
	third := &transfer.Op{Token: 3, Bytes: 8, Posted: 8, Done: 6, Kept: 2}
	second := &transfer.Op{Token: 2, Bytes: 8, Posted: 8, Done: 8, Ended: true, Next: third}
	e := &endpoint{d: d, lanes: posting.Lanes{Queues: make([]*posting.QueuePair, 2), Ops: transfer.List{Last: third}}}
	e.lanes.Ops.First = &transfer.Op{Token: 1, Bytes: 8, Posted: 8, Oldest: true, Err: bad, Next: second}
	e.restartTransfers()
	if l := &e.lanes.Ops; l.First != third || l.Unposted != third || l.Last != third || third.Posted != 2 || third.Done != 2 {
		t.Errorf("first %+v, to be posted %+v", l.First, l.Unposted)
	}
	if !third.Oldest || third.Most != 6 || !e.retry.Unfinished.Transfer {
		t.Errorf("the transfer that is left is %+v, what is unfinished %+v", third, e.retry.Unfinished)
	}
	var evs [2]fabric.Event
	d.events.Begin(evs[:])
	d.events.Deliver(&d.recvs, 0)
	n, active := d.events.End(), d.poster.Transfers.Active.Load()
	if n != 1 || evs[0].Token != 1 || evs[0].Err != bad || active != 1 {
		t.Errorf("got %d events, the first is %+v; %d transfers are active", n, evs[0], active)
	}
}

// TestRestartTransfersKeeps: connections with one lane and with two lanes break in turn. What was carried out over one lane is
// not transferred again, also when the next connection with two lanes has broken. So a transfer ends after so many connections as
// it has pieces, and each connection with one lane that ends a series of failures has brought it forward.
func TestRestartTransfersKeeps(t *testing.T) {
	d, o := &domain{}, &transfer.Op{Bytes: 8}
	e := &endpoint{d: d, lanes: posting.Lanes{Ops: transfer.List{First: o, Last: o}}}
	for i := range 4 {
		for lanes := 1; lanes <= 2; lanes++ {
			e.lanes.Queues = make([]*posting.QueuePair, lanes)
			o.Posted, o.Done = 8, o.Done+lanes
			e.restartTransfers()
			if want := i + 1; o.Posted != want || o.Done != want || o.KeyState != transfer.KeysNone {
				t.Fatalf("after %d connections of each kind, the last one with %d lanes: %+v", i+1, lanes, o)
			}
		}
	}
}

// TestSimulatedTransferOfClosedEnds: an endpoint is closed during a transfer, and then its peer is found to be down. The transfer
// ends: until then its owner must not use the memory.
func TestSimulatedTransferOfClosedEnds(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	connectPeers(t, a, b)
	src, dst := []byte("what is read"), make([]byte, 12)
	far, err1 := b.Register(src)
	near, err2 := a.Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	net.SetPaused(true)
	e := a.eps[1]
	_, err1 = e.Read(dst, near, far.Remote, 7)
	err2 = e.Close()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	e.declareDown(fabric.ErrPeerClosed) // as a DREQ does
	got := pollTimes(t, a, enoughPolls)
	if len(got) != 1 || got[0].Kind != fabric.Done || got[0].Token != 7 || got[0].Err == nil {
		t.Errorf("%+v, want the end of the transfer", got)
	}
	net.SetPaused(false)
}
