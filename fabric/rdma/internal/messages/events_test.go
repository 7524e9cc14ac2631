//go:build linux

package messages

import (
	"errors"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// deliver delivers what v has queued to a slice of n events.
func deliver(v *Events, s *Receives, n int) []fabric.Event {
	evs := make([]fabric.Event, n)
	v.Begin(evs)
	v.Deliver(s, 9)
	return evs[:v.End()]
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
		evs := deliver(&v, nil, round%5*4)
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
	var s Receives // without an SRQ and without a connection, slots are free
	closed, open := &Peer{Number: 1, In: Inbound{Discarding: true}}, &Peer{Number: 2}
	failed := errors.New("failed")
	v.Receive(&s, closed, 5, 8)
	v.Put(Event{Kind: fabric.PeerDown, Peer: closed, Err: failed})
	v.Put(Event{Kind: fabric.Done, Peer: closed, Token: 7, Err: failed})
	v.Receive(&s, closed, 6, 8)
	v.Put(Event{Kind: fabric.PeerDown, Peer: open, Err: failed})
	evs := deliver(&v, &s, 8)
	if !slices.Equal(s.Free, []uint32{5, 6}) || closed.Held != 0 {
		t.Errorf("slots %v are free; %d are held", s.Free, closed.Held)
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
	if len(v.borrowed) != 1 || v.borrowed[0] != (Borrowed{p, 0}) || v.Idle() || p.Held != 3 {
		t.Errorf("borrowed %+v of %d", v.borrowed, p.Held)
	}
	free := len(s.Free)
	if v.Release(s); len(s.Free) != free+1 || p.Held != 2 || len(v.borrowed) != 0 {
		t.Errorf("%d of %d slots are free; %d are held", len(s.Free), free, p.Held)
	}
	if evs := deliver(&v, s, 1); len(evs) != 1 || string(evs[0].Data) != "\x01" || len(v.borrowed) != 1 {
		t.Errorf("got %+v", evs)
	}
	if v.Drop(s); v.Queued() != 0 || len(s.Free) != free+2 || p.Held != 1 {
		t.Errorf("%d events are queued, %d of %d slots are free, %d are held", v.Queued(), len(s.Free), free, p.Held)
	}
}
