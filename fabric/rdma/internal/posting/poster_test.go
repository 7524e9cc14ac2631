//go:build linux

package posting

import (
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/internal/memaddr"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// pair is a queue pair of a simulated device that is connected to itself.
type pair struct {
	t     *testing.T
	p     Poster
	lanes Lanes
	pd    *verbs.PD
	cq    *verbs.CQ
	q     *QueuePair
}

// newPair opens a device on the network. Its doorbells are rung by calls if byCall is set, and
// nobody rings those that wait.
func newPair(t *testing.T, net *verbstest.SimulatedNetwork, byCall bool) *pair {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dev, err := net.Open("a")
	must(err)
	t.Cleanup(func() { dev.Close() })
	x := &pair{t: t}
	x.pd, err = dev.AllocPD()
	must(err)
	ch, err := dev.CreateChannel()
	must(err)
	x.cq, err = dev.CreateCQVector(256, ch, 0)
	must(err)
	qp, err := x.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: x.cq, RecvCQ: x.cq, MaxSend: 64, MaxSendSGE: MaxEntries,
		MaxRecv: 64, MaxInline: 64, Port: 1, Access: verbs.RemoteRead | verbs.RemoteWrite, Serialized: !byCall})
	must(err)
	own, err := qp.Address()
	must(err)
	must(qp.ConnectWith(own, verbs.DefaultParams()))
	x.p.Init(byCall)
	x.p.RingTimer.Stop() // it was not started yet
	x.p.RingTimer = time.NewTimer(time.Hour)
	t.Cleanup(x.p.Stop)
	x.p.Sends = messages.Slots{PD: x.pd, Bytes: 128, Limit: 2 * messages.BlockSlots}
	t.Cleanup(x.p.Sends.Unmap)
	x.q = NewQueuePair(qp, newRail(0), cm.QP{QPN: own.QPN}, 1, 7, nil)
	x.p.Attach(&x.lanes, []*QueuePair{x.q})
	x.lanes.CanPost = true
	return x
}

// post posts a message in a Poll, and reports whether it was posted, and whether its doorbell is to
// be rung at once.
func (x *pair) post(share Share, poll uint) (posted, ring bool) {
	x.t.Helper()
	slot, ok := x.p.Sends.Take()
	if !ok {
		x.t.Fatal("there is no slot")
	}
	b := x.p.Sends.Mem(slot)[:100]
	qp, err := x.p.Message(&x.lanes, Request{Slot: slot, Bytes: 100}, b, share, false, poll)
	if err != nil && err != ErrNoRoom {
		x.t.Fatal(err)
	}
	if err != nil {
		x.p.Sends.Give(slot)
	}
	return err == nil, qp != nil
}

// TestMessageDoorbells: where a doorbell is a call, that of the first message of a Poll is rung at
// once, and then one for several messages. Where it is a store, each is posted with its own.
func TestMessageDoorbells(t *testing.T) {
	x := newPair(t, verbstest.NewSimulatedNetwork(), true)
	for n := range 1 + 2*maxUnrung {
		posted, ring := x.post(ShareMessages, 5)
		if want := n%maxUnrung == 0; !posted || ring != want {
			t.Errorf("message %d: posted %v, rung %v, want %v", n, posted, ring, want)
		}
	}
	if _, ring := x.post(ShareMessages, 6); !ring {
		t.Error("the first message of the next Poll waits")
	}
	if _, ring := x.post(ShareMessages, 6); ring || !x.p.Pending() {
		t.Error("the second one does not")
	}
	y := newPair(t, verbstest.NewSimulatedAdapters(func() int { return 0 }), false)
	for range 3 {
		if posted, ring := y.post(ShareMessages, 5); !posted || ring || y.p.Pending() {
			t.Errorf("posted %v, rung apart from the message %v", posted, ring)
		}
	}
}

// TestMessageRoom: data messages leave room for control messages. Without a connection nothing is
// posted.
func TestMessageRoom(t *testing.T) {
	x := newPair(t, verbstest.NewSimulatedNetwork(), true)
	x.lanes.CanPost = false
	if posted, _ := x.post(ShareAll, 1); posted {
		t.Error("a message is posted before there is a connection")
	}
	x.lanes.CanPost = true
	for n := 0; ; n++ {
		if posted, _ := x.post(ShareMessages, 1); !posted {
			if n != x.q.Rail.Limit[ShareMessages] {
				t.Errorf("%d messages have room", n)
			}
			break
		}
	}
	if posted, _ := x.post(ShareAll, 1); !posted {
		t.Error("a control message has no room")
	}
}

// TestPieces: a Read is posted in pieces that the pacer allows, and has ended when all of them have
// completed.
func TestPieces(t *testing.T) {
	x := newPair(t, verbstest.NewSimulatedNetwork(), true)
	src, dst := make([]byte, 10*x.q.Rail.Piece+1), make([]byte, 10*x.q.Rail.Piece+1)
	for i := range src {
		src[i] = byte(i ^ i>>8)
	}
	o := transfer.Op{Local: memaddr.Of(dst), Bytes: len(dst), Rail: transfer.AnyRail}
	far, err := x.pd.Register(src, verbs.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	near, err := x.pd.Register(dst, verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	o.Keys[0].Local = near.LKey()
	x.p.Begin(&x.lanes, &o, fabric.RemoteKey{Addr: memaddr.Of(src), Key: transfer.RemoteKey(1, transfer.NoRow, far.RKey())})
	pieces := 0
	waittest.Poll(t, "the Read ends", func() (ended bool) {
		x.p.Pieces(&x.lanes)
		if n := x.q.Pieces(); n == 0 || n*x.q.Rail.Piece > x.q.Pacer.Window {
			t.Fatalf("%d pieces are in flight after %d have completed", n, pieces)
		}
		RingAll(x.lanes.Queues)
		var wcs [4]verbs.WC
		n, err := x.cq.Poll(wcs[:])
		if err != nil {
			t.Fatal(err)
		}
		for _, wc := range wcs[:n] {
			if id, ok := x.q.Lookup(wc.ID); !ok || id != x.q.Oldest() || wc.Status != verbs.StatusSuccess {
				t.Fatalf("completion %+v, the oldest request is %d", wc, x.q.Oldest())
			}
			_, ended = x.p.Complete(x.q)
			pieces++
		}
		return ended
	})
	if pieces != 11 || string(dst) != string(src) || x.q.InFlight() != 0 || x.q.Rail.InFlight() != 0 {
		t.Errorf("%d pieces have completed, %d requests are in flight", pieces, x.q.InFlight())
	}
	if x.p.End(&x.lanes, x.lanes.Ops.First); !x.lanes.Idle() || x.p.Transfers.Active.Load() != 0 {
		t.Error("the transfer has not ended")
	}
}

// TestKeep: a queue pair that is not kept is closed, and its number is not found any more.
func TestKeep(t *testing.T) {
	x := newPair(t, verbstest.NewSimulatedNetwork(), false)
	r, qpn := x.q.Rail, x.q.Info.QPN
	if x.p.Keep(&x.lanes, func(*QueuePair) bool { return true }); x.p.Find(r, qpn) != x.q || x.lanes.Messages() != x.q {
		t.Error("a queue pair that is kept is not found")
	}
	if x.p.Keep(&x.lanes, func(q *QueuePair) bool { return q != x.q }); x.p.Find(r, qpn) != nil || x.lanes.Messages() != nil {
		t.Error("a queue pair that is not kept is found")
	}
	if err := x.q.QP.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err == nil {
		t.Error("it is still open")
	}
}
