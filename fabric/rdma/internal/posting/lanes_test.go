package posting

import (
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
	"github.com/ibrun/ibrun/verbs"
)

// twoRails returns the lanes of a connection with two paths over each of two rails.
func twoRails() (l *Lanes, first, second *Rail) {
	l, first, second = new(Lanes), newRail(0), newRail(1)
	l.set([]*QueuePair{newQueue(first, 1, 0), newQueue(first, 2, 1), newQueue(second, 3, 0), newQueue(second, 4, 1)})
	return l, first, second
}

// TestLanesChoose: the next piece goes over the queue pair with the fewest requests of those that
// the transfer may use and that have room.
func TestLanesChoose(t *testing.T) {
	l, _, _ := twoRails()
	a, b, c, d := l.Queues[0], l.Queues[1], l.Queues[2], l.Queues[3]
	for n, q := range []*QueuePair{a, b, c, d} {
		for range []int{3, 2, 0, 1}[n] {
			q.push(Request{Kind: Message}, verbs.Signaled)
		}
	}
	half := &transfer.Op{Bytes: 100, Posted: 50, KeyState: transfer.KeysReading, Rail: transfer.AnyRail}
	for what, o := range map[string]struct {
		op   *transfer.Op
		want *QueuePair
	}{
		"without keys":                      {&transfer.Op{Bytes: 100, Rail: transfer.AnyRail}, b},
		"with keys":                         {&transfer.Op{Bytes: 100, Rail: transfer.AnyRail, KeyState: transfer.KeysReady}, c},
		"on the first rail":                 {&transfer.Op{Bytes: 100, Rail: 0}, b},
		"on the second rail":                {&transfer.Op{Bytes: 100, Rail: 1, KeyState: transfer.KeysReady}, c},
		"on the second rail, keys are read": {&transfer.Op{Bytes: 100, Rail: 1, KeyState: transfer.KeysReading}, nil},
		"first half, keys are read":         {&transfer.Op{Bytes: 100, Posted: 49, KeyState: transfer.KeysReading, Rail: -1}, b},
		"second half, keys are read":        {half, nil},
	} {
		if got := l.choose(o.op); got != o.want {
			t.Errorf("%s: %+v, want %+v", what, got, o.want)
		}
	}
	c.push(Request{Kind: Piece, Bytes: uint32(c.Pacer.Window)}, verbs.Signaled)
	if got := l.choose(&transfer.Op{Bytes: 100, Rail: 1, KeyState: transfer.KeysReady}); got != d {
		t.Errorf("%+v is chosen, whose window is full", got)
	}
	l.set(l.Queues[:2])
	if got := l.choose(&transfer.Op{Bytes: 100, Rail: 1, KeyState: transfer.KeysReady}); got != b {
		t.Errorf("%+v, although the connection does without the rail", got)
	}
}

// TestLanesNeedKeys: only transfers that use another rail than the first need its keys.
func TestLanesNeedKeys(t *testing.T) {
	l, first, _ := twoRails()
	for _, c := range []struct {
		rail  int8
		bytes int
		want  bool
	}{{transfer.AnyRail, 2 * first.Piece, true}, {transfer.AnyRail, 2*first.Piece - 1, false}, {0, 1 << 20, false}, {1, 1, true}} {
		if got := l.needsKeys(&transfer.Op{Rail: c.rail, Bytes: c.bytes}); got != c.want {
			t.Errorf("rail %d, %d bytes: %v", c.rail, c.bytes, got)
		}
	}
	if !l.Uses(l.Queues[2].Rail) || l.Uses(newRail(1)) {
		t.Error("a rail is not used, or one of another process")
	}
	if l.set(l.Queues[:2]); l.needsKeys(&transfer.Op{Rail: 1, Bytes: 1}) {
		t.Error("keys are needed for a rail that the connection does without")
	}
}

// TestDetach: of the requests of a connection that has ended, the data messages are returned in
// order, slots of control messages are free, and nothing counts as in flight. The next connection
// begins with the window of this one.
func TestDetach(t *testing.T) {
	var p Poster
	p.Init(true)
	defer p.Stop()
	l, first, second := twoRails()
	p.Attach(l, l.Queues)
	for _, q := range l.Queues {
		if p.Find(q.Rail, q.Info.QPN) != q {
			t.Fatalf("queue pair %d is not found", q.Info.QPN)
		}
	}
	if p.Find(second, l.Queues[0].Info.QPN) != nil {
		t.Error("a queue pair is found on another rail")
	}
	for n, k := range []Kind{Message, Control, Message, Keepalive, Message} {
		l.Queues[0].push(Request{Kind: k, Seq: uint32(n), Slot: uint32(10 + n)}, 0)
	}
	l.Queues[2].push(Request{Kind: Piece, Op: new(transfer.Op), Bytes: 8}, 0)
	l.Queues[0].Pacer.SetWindow(first.Piece)
	queues := l.Queues
	unacked := p.Detach(l)
	if len(unacked) != 3 || unacked[0].Seq != 0 || unacked[1].Seq != 2 || unacked[2].Seq != 4 {
		t.Errorf("not acknowledged: %+v", unacked)
	}
	if len(p.Sends.Free) != 1 || p.Sends.Free[0] != 11 || first.InFlight() != 0 || second.InFlight() != 0 {
		t.Errorf("slots %v are free; %d and %d requests are in flight", p.Sends.Free, first.InFlight(), second.InFlight())
	}
	l.Forget()
	if l.Messages() != nil || p.Find(first, queues[0].Info.QPN) != nil {
		t.Error("a queue pair that is closed is still known")
	}
	p.Attach(l, []*QueuePair{queues[0]})
	if l.Messages() != queues[0] || queues[0].Pacer.Window != first.Piece {
		t.Errorf("the next connection begins with a window of %d", queues[0].Pacer.Window)
	}
}

// TestComplete: what a request has used is free once it was carried out, and the last piece of a
// transfer ends it.
func TestComplete(t *testing.T) {
	p := Poster{Sends: messages.Slots{}}
	q := newQueue(newRail(0), 1, 0)
	o := &transfer.Op{Bytes: 12}
	q.push(Request{Kind: Message, Slot: 3}, 0)
	q.push(Request{Kind: Piece, Op: o, Bytes: 8}, 0)
	q.push(Request{Kind: Piece, Op: o, Bytes: 4}, verbs.Signaled)
	if r, ended := p.Complete(q); r.Kind != Message || ended || len(p.Sends.Free) != 1 {
		t.Errorf("%+v, ended: %v, free: %v", r, ended, p.Sends.Free)
	}
	if r, ended := p.Complete(q); r.Bytes != 8 || ended || o.Done != 8 || q.Pieces() != 1 {
		t.Errorf("%+v, ended: %v, %d done, %d pieces", r, ended, o.Done, q.Pieces())
	}
	if r, ended := p.Complete(q); r.Op != o || !ended || q.Supervised() || q.Pieces() != 0 || q.InFlight() != 0 {
		t.Errorf("%+v, ended: %v", r, ended)
	}
}

// TestDeferred: each connection is listed once until its doorbells are rung.
func TestDeferred(t *testing.T) {
	var p Poster
	p.Init(true)
	defer p.Stop()
	l, _, _ := twoRails()
	l.set(nil) // there is no device to be notified
	for range 2 {
		if p.Pending() || p.RingsAtOnce() {
			t.Fatal("doorbells are to be rung without a request")
		}
		p.RingLater(l)
		p.RingLater(l)
		if !p.Pending() || len(p.doorbells.deferred) != 1 {
			t.Fatalf("%d connections wait", len(p.doorbells.deferred))
		}
		p.RingDeferred()
	}
	p.Stop()
	p.Init(false)
	if p.RingLater(l); p.Pending() || !p.RingsAtOnce() {
		t.Error("doorbells that are stores wait")
	}
}
