package shm

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// poll is Poll where it must not fail.
func poll(t *testing.T, d *Domain, evs []fabric.Event) []fabric.Event {
	t.Helper()
	n, err := d.Poll(evs)
	if err != nil {
		t.Fatal(err)
	}
	return evs[:n]
}

// post sends some bytes, a message each.
func post(t *testing.T, e fabric.Endpoint, bytes ...byte) {
	t.Helper()
	for _, b := range bytes {
		if err := e.Send([]byte{b}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPollInTurn: no ring waits for ever behind one that always has as much as is taken at once, and those that are silent keep
// nobody.
func TestPollInTurn(t *testing.T) {
	const n = 4
	ds := openAll(t, node(n))
	var es []fabric.Endpoint
	for _, d := range ds[1:] {
		es = append(es, connect(t, d, 0))
	}
	for _, room := range []int{1, 2, 3} {
		evs := make([]fabric.Event, room)
		for talking := 1; talking < 1<<len(es); talking++ {
			var sent, got [n]byte
			for range 6 * n {
				for i, e := range es {
					for talking>>i&1 != 0 && sent[i+1]-got[i+1] < byte(room) {
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
				if talking>>i&1 != 0 && got[i+1] < byte(2*room) {
					t.Errorf("room for %d, %03b talk: peer %d was heard %d times", room, talking, i+1, got[i+1])
				}
			}
			for range 2 * n { // what is left
				poll(t, ds[0], evs)
			}
		}
	}
}

// TestPollNothing: a Poll that may take nothing leaves everything, be it messages or the end of a peer.
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

// TestPollClosed: a domain that is closed says so, whatever it had lent or was told before.
func TestPollClosed(t *testing.T) {
	for name, before := range map[string]func(d, other *Domain) error{
		"idle":  func(_, _ *Domain) error { return nil },
		"armed": func(d, _ *Domain) error { _, _, err := d.Arm(); return err },
		"lending": func(d, other *Domain) error {
			e, err := other.Connect(0, nil)
			if err != nil {
				return err
			}
			for err == nil {
				err = e.Send(make([]byte, 1000), nil)
			}
			var evs [64]fabric.Event
			if got := poll(t, d, evs[:]); err != fabric.ErrAgain || len(got) < 8 { // so much that the writer would be told
				t.Errorf("%d messages, %v", len(got), err)
			}
			return nil
		},
		"bereft": func(d, other *Domain) error {
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

// TestPollGoodbye: a peer that has closed is reported behind all that it sent, however many Polls that takes, and others are
// heard meanwhile and afterwards.
func TestPollGoodbye(t *testing.T) {
	const sent = 7
	for room := 1; room <= sent+2; room++ {
		ds := openAll(t, node(4))
		for i, d := range ds[1:3] { // two close, one of them with nothing said last
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
		heard, other, down := byte(0), byte(0), map[int32]int{}
		for said := range byte(3 * sent) {
			post(t, stays, said)
			for _, ev := range poll(t, ds[0], evs) {
				switch {
				case ev.Kind == fabric.PeerDown:
					if down[ev.Peer]++; ev.Peer == 3 || ev.Peer == 1 && heard != sent || !errors.Is(ev.Err, fabric.ErrPeerClosed) {
						t.Errorf("room for %d: %+v after %d messages of %d", room, ev, heard, sent)
					}
				case ev.Peer == 1 && ev.Data[0] == heard:
					heard++
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
		if heard != sent || other != 3*sent || down[1] != 1 || down[2] != 1 {
			t.Errorf("room for %d: heard %d and %d, down %v", room, heard, other, down)
		}
		if ds[0].rare {
			t.Errorf("room for %d: Poll has more to see to when everything has been told", room)
		}
	}
}

// TestPollGoodbyeInTurn: the end of a peer, be it in order or not, is told also while another always has as much as is taken at
// once, wherever the rings of the two are.
func TestPollGoodbyeInTurn(t *testing.T) {
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
			told := false
			for range 5 {
				post(t, es[3-ends], 1, 1)
				for _, ev := range poll(t, ds[0], evs) {
					told = told || ev.Kind == fabric.PeerDown && ev.Peer == int32(ends) && errors.Is(ev.Err, want)
				}
			}
			if !told {
				t.Errorf("%s: nothing is heard of the end of peer %d", name, ends)
			}
		}
	}
}

// TestCloseInFlood: that a peer has closed is told once its messages have been, though another's ring is never empty.
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
	came := 0
	for range 100 {
		n, err := ds[0].Poll(evs[:])
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range evs[:n] {
			switch {
			case ev.Kind == fabric.PeerDown && (ev.Peer != 1 || came != last+1 || !errors.Is(ev.Err, fabric.ErrPeerClosed)):
				t.Fatalf("after %d messages of the peer that closes: %+v", came, ev)
			case ev.Kind == fabric.PeerDown:
				return
			case ev.Peer == 1:
				came++
			}
		}
		fill()
	}
	t.Errorf("the end of a peer is not told after %d messages of it", came)
}

// TestPollArmed: a peer that was armed is not any more once it polls.
func TestPollArmed(t *testing.T) {
	ds := openAll(t, node(2))
	there := connect(t, ds[0], 1)
	for b := range byte(3) {
		if _, _, err := ds[1].Arm(); err != nil {
			t.Fatal(err)
		}
		if ds[1].self.flags&asleep == 0 {
			t.Fatal("armed, and said to be awake")
		}
		post(t, there, b)
		ev, err := next(ds[1])
		if err != nil || ev.Kind != fabric.Message || ev.Data[0] != b || ds[1].self.flags&asleep != 0 || ds[1].armed {
			t.Errorf("%+v, %v, flags %#x", ev, err, ds[1].self.flags)
		}
	}
}

// TestPollLoans: what was lent is the peer's again at the next Poll, and only then, whichever rings it is from.
func TestPollLoans(t *testing.T) {
	ds := openAll(t, node(3))
	es := []fabric.Endpoint{connect(t, ds[1], 0), connect(t, ds[2], 0)}
	evs := make([]fabric.Event, 64)
	sent, taken := [2]int{}, 0
	for lap := range 30 {
		for i, e := range es {
			for range 20 + lap {
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
		for in := ds[0].lent; in != nil; in = in.after {
			t.Fatal("something is lent after a Poll that took nothing")
		}
	}
	if all := ringBytes(shortSpace) / 1000 * 2; sent[0] < all || sent[1] < all || taken != sent[0]+sent[1] {
		t.Errorf("%d messages went, %d were taken; want %d at least", sent, taken, all)
	}
}

// TestPollAllocs: taking messages, and giving their room back, allocates nothing.
func TestPollAllocs(t *testing.T) {
	ds := openAll(t, node(3))
	es := []fabric.Endpoint{connect(t, ds[1], 0), connect(t, ds[2], 0)}
	evs := make([]fabric.Event, 8)
	b := make([]byte, 8)
	if n := testing.AllocsPerRun(1000, func() {
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

// TestPollFetches: a Poll that finds nothing makes the ring to a peer ready for more of what was sent, one that finds something
// does not.
func TestPollFetches(t *testing.T) {
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
		if got := poll(t, ds[0], evs[:]); len(got) != 1 || !e.w.Behind() || ds[0].idle != e {
			t.Fatalf("%d events; behind: %v", len(got), e.w.Behind())
		}
		if got := poll(t, ds[0], evs[:]); len(got) != 0 || e.w.Behind() || e.idle || ds[0].idle != nil {
			t.Fatalf("%d events; behind: %v, listed: %v", len(got), e.w.Behind(), e.idle)
		}
		if got := poll(t, ds[1], evs[:]); len(got) != 1 || len(got[0].Data) != 1+len(long) {
			t.Fatalf("%d events", len(got))
		}
	}
}

// TestPollExpects: an answer is expected for some Polls after something was sent, until a message comes, from whomever, and also
// where there is room for no more. A peer that has never sent anything has no ring to look at.
func TestPollExpects(t *testing.T) {
	ds := openAll(t, node(2))
	there, back := connect(t, ds[0], 1), connect(t, ds[1], 0)
	evs := make([]fabric.Event, 4)
	poll(t, ds[1], evs) // it finds the ring
	for _, room := range []int{1, 4} {
		post(t, back, 1)
		if ds[1].looks != answerLooks || ds[1].asked != 0 {
			t.Fatalf("%d Polls for an answer of %d after something was sent", ds[1].looks, ds[1].asked)
		}
		for left := answerLooks; left >= 0; left-- {
			if got := poll(t, ds[1], evs); len(got) != 0 || ds[1].looks != max(left-1, 0) {
				t.Fatalf("%d events, and %d Polls of %d are left", len(got), ds[1].looks, left)
			}
		}
		post(t, back, 2)
		poll(t, ds[1], evs)
		post(t, there, 3)
		if got := poll(t, ds[1], evs[:room]); len(got) != 1 || ds[1].looks != 0 {
			t.Fatalf("room for %d: %d events, and an answer is expected for %d more Polls", room, len(got), ds[1].looks)
		}
		if got := poll(t, ds[0], evs); len(got) != 2 {
			t.Fatalf("%d events, want 2", len(got))
		}
	}
	silent := openAll(t, node(2))
	post(t, connect(t, silent[0], 1), 1)
	if got := poll(t, silent[0], evs); len(got) != 0 || silent[0].looks != answerLooks-1 {
		t.Errorf("%d events, and %d Polls are left", len(got), silent[0].looks)
	}
}
