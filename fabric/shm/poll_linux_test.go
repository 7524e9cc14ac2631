package shm

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/alloctest"
)

// poll calls Poll and fails the test on an error.
func poll(t *testing.T, d *Domain, evs []fabric.Event) []fabric.Event {
	t.Helper()
	n, err := d.Poll(evs)
	if err != nil {
		t.Fatal(err)
	}
	return evs[:n]
}

// post sends some messages of one byte.
func post(t *testing.T, e fabric.Endpoint, bytes ...byte) {
	t.Helper()
	for _, b := range bytes {
		if err := e.Send([]byte{b}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPollRoundRobin: no ring waits for ever behind one that always has as much as is received at a time, and empty rings do not
// delay others.
func TestPollRoundRobin(t *testing.T) {
	const n = 4
	ds := openAll(t, node(n))
	var es []fabric.Endpoint
	for _, d := range ds[1:] {
		es = append(es, connect(t, d, 0))
	}
	for _, room := range []int{1, 2, 3} {
		evs := make([]fabric.Event, room)
		for senders := 1; senders < 1<<len(es); senders++ {
			var sent, got [n]byte
			for range 6 * n {
				for i, e := range es {
					for senders>>i&1 != 0 && sent[i+1]-got[i+1] < byte(room) {
						post(t, e, sent[i+1])
						sent[i+1]++
					}
				}
				for _, ev := range poll(t, ds[0], evs) {
					if ev.Kind != fabric.Message || ev.Data[0] != got[ev.Peer] {
						t.Fatalf("event %+v, want message %d", ev, got[ev.Peer])
					}
					got[ev.Peer]++
				}
			}
			for i := range es {
				if senders>>i&1 != 0 && got[i+1] < byte(2*room) {
					t.Errorf("room for %d, senders %03b: %d messages of peer %d", room, senders, got[i+1], i+1)
				}
			}
			for range 2 * n { // the rest
				poll(t, ds[0], evs)
			}
		}
	}
}

// TestPollNothing: a Poll without room for events leaves everything for later, messages as well as the end of a peer.
func TestPollNothing(t *testing.T) {
	ds := openAll(t, node(2))
	post(t, connect(t, ds[0], 1), 1)
	var evs [4]fabric.Event
	for _, none := range [][]fabric.Event{nil, evs[:0]} {
		if got := poll(t, ds[1], none); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	}
	if got := poll(t, ds[1], evs[:]); len(got) != 1 || got[0].Kind != fabric.Message || got[0].Data[0] != 1 {
		t.Errorf("got %v", got)
	}
	if err := ds[0].Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		poll(t, ds[1], nil)
	}
	if got := poll(t, ds[1], evs[:]); len(got) != 1 || got[0].Kind != fabric.PeerDown {
		t.Errorf("got %v", got)
	}
	if got := poll(t, ds[1], evs[:]); len(got) != 0 {
		t.Errorf("got %v once more", got)
	}
}

// TestPollClosed: Poll of a closed domain returns ErrClosed, in any state.
func TestPollClosed(t *testing.T) {
	for name, before := range map[string]func(d, other *Domain) error{
		"idle":  func(_, _ *Domain) error { return nil },
		"armed": func(d, _ *Domain) error { _, _, err := d.Arm(); return err },
		"borrowed": func(d, other *Domain) error {
			e, err := other.Connect(0, nil)
			if err != nil {
				return err
			}
			for err == nil {
				err = e.Send(make([]byte, 1000), nil)
			}
			var evs [64]fabric.Event
			if got := poll(t, d, evs[:]); err != fabric.ErrAgain || len(got) < 8 { // so much that Release publishes the position
				t.Errorf("%d messages, %v", len(got), err)
			}
			return nil
		},
		"peer down": func(d, other *Domain) error {
			_, err := other.Connect(0, nil)
			err = errors.Join(err, other.Close())
			_, bad := next(d)
			return errors.Join(err, bad)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ds := openAll(t, node(2))
			if err := errors.Join(before(ds[0], ds[1]), ds[0].Close()); err != nil {
				t.Fatal(err)
			}
			var evs [2]fabric.Event
			for _, evs := range [][]fabric.Event{evs[:], nil, evs[:]} {
				if n, err := ds[0].Poll(evs); n != 0 || !errors.Is(err, fabric.ErrClosed) {
					t.Errorf("%d events, %v", n, err)
				}
			}
		})
	}
}

// TestPollPeerClosed: a peer that has closed is reported after all its messages, however many Polls that takes. Messages of
// others are received meanwhile and afterwards.
func TestPollPeerClosed(t *testing.T) {
	const sent = 7
	for room := 1; room <= sent+2; room++ {
		ds := openAll(t, node(4))
		for i, d := range ds[1:3] { // two close, one of them without a message
			e := connect(t, d, 0)
			for b := range byte(sent * (1 - i)) {
				post(t, e, b)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		stays := connect(t, ds[3], 0)
		evs := make([]fabric.Event, room)
		received, other, down := byte(0), byte(0), map[int32]int{}
		for seq := range byte(3 * sent) {
			post(t, stays, seq)
			for _, ev := range poll(t, ds[0], evs) {
				switch {
				case ev.Kind == fabric.PeerDown:
					if down[ev.Peer]++; ev.Peer == 3 || ev.Peer == 1 && received != sent || !errors.Is(ev.Err, fabric.ErrPeerClosed) {
						t.Errorf("room for %d: %+v after %d messages of %d", room, ev, received, sent)
					}
				case ev.Peer == 1 && ev.Data[0] == received:
					received++
				case ev.Peer == 3 && ev.Data[0] == other:
					other++
				default:
					t.Fatalf("room for %d: %+v", room, ev)
				}
			}
		}
		for range 3*sent + 3 {
			for _, ev := range poll(t, ds[0], evs) {
				if ev.Kind == fabric.PeerDown {
					down[ev.Peer]++
				} else if other++; ev.Peer != 3 {
					t.Errorf("room for %d: %+v", room, ev)
				}
			}
		}
		if received != sent || other != 3*sent || down[1] != 1 || down[2] != 1 {
			t.Errorf("room for %d: received %d and %d, down %v", room, received, other, down)
		}
		if ds[0].slowPoll {
			t.Errorf("room for %d: slowPoll is set after everything has been reported", room)
		}
	}
}

// TestPollPeerClosedRoundRobin: the end of a peer, in order or not, is reported even while another peer always has as many
// messages as are received at a time, in whatever order their rings are.
func TestPollPeerClosedRoundRobin(t *testing.T) {
	for name, want := range map[string]error{"closed": fabric.ErrPeerClosed, "corrupt": fabric.ErrCorrupt} {
		for _, ends := range []int{1, 2} {
			ds := openAll(t, node(3))
			es := []fabric.Endpoint{nil, connect(t, ds[1], 0), connect(t, ds[2], 0)}
			evs := make([]fabric.Event, 2)
			poll(t, ds[0], evs)
			if name == "corrupt" {
				binary.NativeEndian.PutUint64(es[ends].(*endpoint).mem[4096:], 0xDEAD)
			} else if err := ds[ends].Close(); err != nil {
				t.Fatal(err)
			}
			reported := false
			for range 5 {
				post(t, es[3-ends], 1, 1)
				for _, ev := range poll(t, ds[0], evs) {
					reported = reported || ev.Kind == fabric.PeerDown && ev.Peer == int32(ends) && errors.Is(ev.Err, want)
				}
			}
			if !reported {
				t.Errorf("%s: the end of peer %d is not reported", name, ends)
			}
		}
	}
}

// TestCloseInFlood: a closed peer is reported after its messages, even while the ring of another peer is never empty.
func TestCloseInFlood(t *testing.T) {
	ds := openAll(t, node(3))
	gone, flood := connect(t, ds[1], 0), connect(t, ds[2], 0)
	fill := func() {
		for {
			if err := flood.Send([]byte{2}, nil); err == fabric.ErrAgain {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	const last = 5
	for i := range last + 1 {
		if err := gone.Send([]byte{byte(i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := ds[1].Close(); err != nil {
		t.Fatal(err)
	}
	var evs [4]fabric.Event
	received := 0
	for range 100 {
		n, err := ds[0].Poll(evs[:])
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range evs[:n] {
			switch {
			case ev.Kind == fabric.PeerDown && (ev.Peer != 1 || received != last+1 || !errors.Is(ev.Err, fabric.ErrPeerClosed)):
				t.Fatalf("after %d messages of the closed peer: %+v", received, ev)
			case ev.Kind == fabric.PeerDown:
				return
			case ev.Peer == 1:
				received++
			}
		}
		fill()
	}
	t.Errorf("the end of a peer is not reported after %d messages of it", received)
}

// TestPollArmed: Poll disarms a domain.
func TestPollArmed(t *testing.T) {
	ds := openAll(t, node(2))
	there := connect(t, ds[0], 1)
	for b := range byte(3) {
		if _, _, err := ds[1].Arm(); err != nil {
			t.Fatal(err)
		}
		if ds[1].self.flags&asleep == 0 {
			t.Fatal("armed, but the flag asleep is not set")
		}
		post(t, there, b)
		ev, err := next(ds[1])
		if err != nil || ev.Kind != fabric.Message || ev.Data[0] != b || ds[1].self.flags&asleep != 0 || ds[1].armed {
			t.Errorf("%+v, %v, flags %#x", ev, err, ds[1].self.flags)
		}
	}
}

// TestPollReleases: the room of received messages returns to the writer at the next Poll, and not before, from all rings.
func TestPollReleases(t *testing.T) {
	ds := openAll(t, node(3))
	es := []fabric.Endpoint{connect(t, ds[1], 0), connect(t, ds[2], 0)}
	evs := make([]fabric.Event, 64)
	sent, taken := [2]int{}, 0
	for pass := range 30 {
		for i, e := range es {
			for range 20 + pass {
				err := e.Send(make([]byte, 1000), nil)
				if err == fabric.ErrAgain {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				sent[i]++
			}
		}
		for n := -1; n != 0; taken += n {
			n = len(poll(t, ds[0], evs))
		}
		for in := ds[0].inbounds.borrowed; in != nil; in = in.nextBorrowed {
			t.Fatal("records are borrowed after a Poll without messages")
		}
	}
	if all := ringBytes(smallSpace) / 1000 * 2; sent[0] < all || sent[1] < all || taken != sent[0]+sent[1] {
		t.Errorf("%d messages sent, %d received; want %d at least", sent, taken, all)
	}
}

// TestPollAllocs: receiving messages and releasing them allocates nothing.
func TestPollAllocs(t *testing.T) {
	ds := openAll(t, node(3))
	es := []fabric.Endpoint{connect(t, ds[1], 0), connect(t, ds[2], 0)}
	evs := make([]fabric.Event, 8)
	b := make([]byte, 8)
	if n := alloctest.Count(1000, func() {
		for _, e := range es {
			if err := e.Send(b, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := poll(t, ds[0], evs); len(got) != len(es) {
			t.Fatalf("got %v", got)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestPollPrefetchesRings: a Poll that finds nothing prefetches the rings of long messages that were sent; a Poll that finds
// something does not.
func TestPollPrefetchesRings(t *testing.T) {
	ds := openAll(t, node(2))
	there, back := connect(t, ds[0], 1), connect(t, ds[1], 0)
	e := there.(*endpoint)
	long := make([]byte, 4<<10)
	var evs [4]fabric.Event
	for range 3 {
		if err := there.Send([]byte{1}, long); err != nil {
			t.Fatal(err)
		}
		post(t, back, 2)
		if got := poll(t, ds[0], evs[:]); len(got) != 1 || !e.w.NeedsPrefetch() || ds[0].toPrefetch != e {
			t.Fatalf("%d events; needs prefetch: %v", len(got), e.w.NeedsPrefetch())
		}
		if got := poll(t, ds[0], evs[:]); len(got) != 0 || e.w.NeedsPrefetch() || e.inPrefetchList || ds[0].toPrefetch != nil {
			t.Fatalf("%d events; needs prefetch: %v, listed: %v", len(got), e.w.NeedsPrefetch(), e.inPrefetchList)
		}
		if got := poll(t, ds[1], evs[:]); len(got) != 1 || len(got[0].Data) != 1+len(long) {
			t.Fatalf("%d events", len(got))
		}
	}
}

// TestPollPrefetchesAnswer: an answer is expected for some Polls after something was sent, until a message arrives from any peer,
// even if there is no room for more. If the peer has never sent anything, there is no ring to prefetch.
func TestPollPrefetchesAnswer(t *testing.T) {
	ds := openAll(t, node(2))
	there, back := connect(t, ds[0], 1), connect(t, ds[1], 0)
	evs := make([]fabric.Event, 4)
	poll(t, ds[1], evs) // so that it finds the ring
	for _, room := range []int{1, 4} {
		post(t, back, 1)
		if ds[1].answerPolls != maxAnswerPolls || ds[1].lastSentTo != 0 {
			t.Fatalf("%d Polls for an answer of %d after something was sent", ds[1].answerPolls, ds[1].lastSentTo)
		}
		for remaining := maxAnswerPolls; remaining >= 0; remaining-- {
			if got := poll(t, ds[1], evs); len(got) != 0 || ds[1].answerPolls != max(remaining-1, 0) {
				t.Fatalf("%d events, and %d Polls of %d are left", len(got), ds[1].answerPolls, remaining)
			}
		}
		post(t, back, 2)
		poll(t, ds[1], evs)
		post(t, there, 3)
		if got := poll(t, ds[1], evs[:room]); len(got) != 1 || ds[1].answerPolls != 0 {
			t.Fatalf("room for %d: %d events, and an answer is expected for %d more Polls", room, len(got), ds[1].answerPolls)
		}
		if got := poll(t, ds[0], evs); len(got) != 2 {
			t.Fatalf("%d events, want 2", len(got))
		}
	}
	oneWay := openAll(t, node(2))
	post(t, connect(t, oneWay[0], 1), 1)
	if got := poll(t, oneWay[0], evs); len(got) != 0 || oneWay[0].answerPolls != maxAnswerPolls-1 {
		t.Errorf("%d events, and %d Polls are left", len(got), oneWay[0].answerPolls)
	}
}
