//go:build linux

package rdma

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
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
	stuck := b.eps[0].qps[1].qp
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
	if a.transfers.active.Load() != 0 {
		t.Errorf("%d transfers have not ended", a.transfers.active.Load())
	}
}

// TestRestartTransfers: the first of three transfers has failed, the second has ended and the third is in progress. What was not
// kept of the third is posted again. It is unfinished, although the oldest one has ended.
func TestRestartTransfers(t *testing.T) {
	d, bad := &domain{}, errors.New("bad")
	d.transfers.active.Store(2)
	third := &op{token: 3, bytes: 8, posted: 8, done: 6, kept: 2}
	second := &op{token: 2, bytes: 8, posted: 8, done: 8, ended: true, next: third}
	e := &endpoint{d: d, qps: make([]*queuePair, 2), ops: opList{last: third}}
	e.ops.first = &op{token: 1, bytes: 8, posted: 8, oldest: true, err: bad, next: second}
	d.restartTransfers(e)
	if e.ops.first != third || e.ops.unposted != third || e.ops.last != third || third.posted != 2 || third.done != 2 {
		t.Errorf("first %+v, to be posted %+v", e.ops.first, e.ops.unposted)
	}
	if !third.oldest || third.most != 6 || !e.retry.Unfinished.Transfer {
		t.Errorf("the transfer that is left is %+v, what is unfinished %+v", third, e.retry.Unfinished)
	}
	if it := d.events.take(); d.events.len() != 0 || it.token != 1 || it.err != bad || d.transfers.active.Load() != 1 {
		t.Errorf("got event %+v and %d more; %d transfers are active", it, d.events.len(), d.transfers.active.Load())
	}
}

// TestRestartTransfersKeeps: connections with one lane and with two lanes break in turn. What was carried out over one lane is
// not transferred again, also when the next connection with two lanes has broken. So a transfer ends after so many connections as
// it has pieces, and each connection with one lane that ends a series of failures has brought it forward.
func TestRestartTransfersKeeps(t *testing.T) {
	d, o := &domain{}, &op{bytes: 8}
	e := &endpoint{d: d, ops: opList{first: o, last: o}}
	for i := range 4 {
		for lanes := 1; lanes <= 2; lanes++ {
			e.qps = make([]*queuePair, lanes)
			o.posted, o.done = 8, o.done+lanes
			d.restartTransfers(e)
			if want := i + 1; o.posted != want || o.done != want || o.keyState != keysNone {
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
	a.declareDown(e, fabric.ErrPeerClosed) // as a DREQ does
	got := pollTimes(t, a, enoughPolls)
	if len(got) != 1 || got[0].Kind != fabric.Done || got[0].Token != 7 || got[0].Err == nil {
		t.Errorf("%+v, want the end of the transfer", got)
	}
	net.SetPaused(false)
}
