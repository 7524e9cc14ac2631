//go:build linux

package messages

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// events delivers what v has queued to a slice of n events.
func deliver(v *Events, n int) (evs []fabric.Event, dropped []Borrowed) {
	evs = make([]fabric.Event, n)
	v.Begin(evs)
	v.DeliverOwn(9)
	for b := v.Deliver(nil); b.Peer != nil; b = v.Deliver(nil) {
		dropped = append(dropped, b)
	}
	return evs[:v.End()], dropped
}

// TestEventsOrder: events that do not fit the slice of the caller come with later calls, in order.
func TestEventsOrder(t *testing.T) {
	var v Events
	p := &Peer{Number: 3}
	put, got := uint64(0), uint64(0)
	for round := range 40 {
		for range round % 7 * 5 {
			v.Put(Event{Kind: fabric.Done, Peer: p, Token: put})
			put++
		}
		evs, _ := deliver(&v, round%5*4)
		for _, ev := range evs {
			if ev.Kind != fabric.Done || ev.Peer != 3 || ev.Token != got {
				t.Fatalf("got %+v as event %d", ev, got)
			}
			got++
		}
		if v.Queued() != int(put-got) || v.Pending() != (put != got) || v.Ready() != (len(evs) > 0 || put != got) {
			t.Fatalf("%d events are queued after %d of %d", v.Queued(), got, put)
		}
	}
}

// TestEventsDropped: of an endpoint that was closed here, only the ends of transfers are delivered.
// The slots of its messages are returned.
func TestEventsDropped(t *testing.T) {
	var v Events
	closed, open := &Peer{Number: 1, In: Inbound{Discarding: true}}, &Peer{Number: 2}
	failed := errors.New("failed")
	v.Receive(nil, closed, 5, 8)
	v.Put(Event{Kind: fabric.PeerDown, Peer: closed, Err: failed})
	v.Put(Event{Kind: fabric.Done, Peer: closed, Token: 7, Err: failed})
	v.Receive(nil, closed, 6, 8)
	v.Put(Event{Kind: fabric.PeerDown, Peer: open, Err: failed})
	evs, dropped := deliver(&v, 8)
	if len(dropped) != 2 || dropped[0] != (Borrowed{closed, 5}) || dropped[1] != (Borrowed{closed, 6}) || closed.Held != 2 {
		t.Errorf("dropped %+v; %d are held", dropped, closed.Held)
	}
	if len(evs) != 2 || evs[0].Kind != fabric.Done || evs[0].Token != 7 || evs[0].Err != failed ||
		evs[1].Kind != fabric.PeerDown || evs[1].Peer != 2 {
		t.Errorf("got %+v", evs)
	}
}

// TestEventsReceive: a message is delivered at once while the slice has room and nothing is queued.
// Its slot is borrowed until the caller releases it.
func TestEventsReceive(t *testing.T) {
	_, pd := openPD(t)
	s := &Receives{Slots: Slots{PD: pd, Bytes: 64, Limit: BlockSlots}}
	defer s.Unmap()
	if err := s.Grow(); err != nil {
		t.Fatal(err)
	}
	var v Events
	p := &Peer{Number: 4}
	for slot := range uint32(3) {
		copy(s.Mem(slot)[HeaderBytes:], []byte{byte(slot)})
	}
	evs := make([]fabric.Event, 1)
	v.Begin(evs)
	v.Receive(s, p, 0, 1)
	v.Receive(s, p, 1, 1)
	v.Receive(s, p, 2, 1)
	n := v.End()
	if ev := &evs[0]; n != 1 || ev.Kind != fabric.Message || ev.Peer != 4 || string(ev.Data) != "\x00" || v.Queued() != 2 {
		t.Fatalf("got %d events, %+v, and %d are queued", n, evs, v.Queued())
	}
	if b := v.Borrowed(); len(b) != 1 || b[0] != (Borrowed{p, 0}) || v.Idle() || p.Held != 3 {
		t.Errorf("borrowed %+v of %d", b, p.Held)
	}
	v.Release()
	v.Begin(evs)
	if b := v.Deliver(s); b.Peer != nil || v.End() != 1 || string(evs[0].Data) != "\x01" || len(v.Borrowed()) != 1 {
		t.Errorf("got %+v, dropped %+v", evs, b)
	}
}
