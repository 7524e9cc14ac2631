package virtual

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/simulate"
)

// exact is a model in which times are easy to compute: a byte takes 1 ns.
var exact = simulate.Model{Node: simulate.Link{Latency: 10, Overhead: 1, Bandwidth: 1e9},
	Network: simulate.Link{Latency: 100, Overhead: 5, Bandwidth: 1e9}, Copy: 1, Reduce: 1, Eager: 1000}

// world has peers whose calls are all made by one goroutine.
type world struct {
	t   *testing.T
	hub *Hub
	ds  []fabric.Domain
	eps [][]fabric.Endpoint
}

// newWorld returns n connected peers, two on each node. Messages whose header begins with a 'w' are untimed.
func newWorld(t *testing.T, n int) *world {
	w := &world{t: t}
	nodeOf := make([]int, n)
	for i := range nodeOf {
		nodeOf[i] = i / 2
	}
	var err error
	if w.hub, err = NewHub(exact, nodeOf, func(header []byte) bool { return header[0] == 'w' }); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		d, err := w.hub.Transport().Open(context.Background(), &fabric.Config{Self: i, Size: n})
		if err != nil {
			t.Fatal(err)
		}
		w.ds = append(w.ds, d)
		w.poll(i) // from now on Arm counts
	}
	for _, d := range w.ds {
		eps := make([]fabric.Endpoint, n)
		for i := range eps {
			if eps[i], err = d.Connect(i, nil); err != nil {
				t.Fatal(err)
			}
		}
		w.eps = append(w.eps, eps)
	}
	return w
}

// poll returns the events of a peer as text.
func (w *world) poll(peer int) (texts []string) {
	evs := make([]fabric.Event, 8)
	n, err := w.ds[peer].Poll(evs)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, ev := range evs[:n] {
		switch ev.Kind {
		case fabric.Message:
			texts = append(texts, fmt.Sprintf("%s from %d", bytes.TrimRight(ev.Data, "\x00"), ev.Peer))
		case fabric.Done:
			texts = append(texts, fmt.Sprintf("%d done", ev.Token))
		default:
			texts = append(texts, fmt.Sprintf("%d is down: %v", ev.Peer, ev.Err))
		}
	}
	return texts
}

// arm lets a peer wait, and returns whether something has arrived.
func (w *world) arm(peer int) bool {
	_, ready, err := w.ds[peer].Arm()
	if err != nil {
		w.t.Fatal(err)
	}
	return ready
}

func (w *world) send(from, to int, text string, n int) error {
	return w.eps[from][to].Send([]byte(text), make([]byte, n-len(text)))
}

// expect lets all peers wait, of which the given one has got events, in order, and checks its clock after each.
func (w *world) expect(peer int, want ...string) {
	w.t.Helper()
	for i := range w.ds {
		w.arm(i)
	}
	var got []string
	for len(got) < len(want) {
		texts := w.poll(peer)
		if len(texts) == 0 {
			break
		}
		got = append(got, fmt.Sprintf("%s at %d", texts[0], w.hub.Now(peer)))
		w.arm(peer)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("got %q, want %q", got, want)
	}
}

// TestTimes computes by hand when messages, reads and writes arrive, and that messages which are untimed change no clock but keep
// their place.
func TestTimes(t *testing.T) {
	w := newWorld(t, 4)
	mem := make([]byte, 300)
	far, err1 := w.ds[2].Register(mem)
	near, err2 := w.ds[0].Register(make([]byte, 300))
	done, err3 := w.eps[0][2].Read(make([]byte, 300), near, far.Remote, 7) // at 5
	_, err4 := w.eps[0][2].Write([]byte("abc"), near, far.Remote, 8)       // at 10
	if err := errors.Join(err1, err2, err3, err4); err != nil || done {
		t.Fatal(done, err)
	}
	w.expect(0, "8 done at 218", "7 done at 510")
	if string(mem[:3]) != "abc" {
		t.Errorf("written: %q", mem[:3])
	}
	for _, x := range []struct {
		to, n int
		text  string
	}{{1, 50, "one"}, {2, 60, "two"}, {2, 70, "three"}, {2, 1, "w"}, {2, 10, "four"}} {
		if err := w.send(0, x.to, x.text, x.n); err != nil {
			t.Fatal(err)
		}
	}
	if now := w.hub.Now(0); now != 510+1+3*5 {
		t.Errorf("the clock of the sender is %d", now)
	}
	w.hub.Compute(2, 650)
	w.expect(1, "one from 0 at 572")
	w.expect(2, "two from 0 at 681", "three from 0 at 751", "w from 0 at 751", "four from 0 at 761")
	w.expect(3)
}

// TestWindow: a sender finds no room while too much is under way, and is woken when there is some.
func TestWindow(t *testing.T) {
	w := newWorld(t, 2)
	sent, err := 0, error(nil)
	for ; err == nil; sent++ {
		err = w.send(0, 1, "x", 1000)
	}
	if sent--; err != fabric.ErrAgain || sent != windowBytes/1000 {
		t.Fatalf("%v after %d messages", err, sent)
	}
	w.arm(1)
	if w.arm(0) {
		t.Fatal("the sender is ready")
	}
	received := 0
	for w.send(0, 1, "x", 1000) == fabric.ErrAgain {
		if len(w.poll(1)) != 1 {
			t.Fatalf("no message after %d, and no room", received)
		}
		received++
		w.arm(1)
		w.arm(0)
	}
	if now := w.hub.Now(0); received == sent || now < 1000 {
		t.Errorf("room after %d of %d messages, at %d", received, sent, now)
	}
}

// TestEnds: the end of a peer follows what it has sent, whether it closes or fails, and reaches a peer that connects later.
func TestEnds(t *testing.T) {
	for _, closes := range []bool{false, true} {
		w := newWorld(t, 3)
		for range 2 {
			if err := w.send(2, 0, "x", 500); err != nil {
				t.Fatal(err)
			}
		}
		if closes {
			if err := errors.Join(w.ds[2].Close(), w.ds[2].Close()); err != nil {
				t.Fatal(err)
			}
		} else {
			w.hub.Fail(2, errors.New("lost"))
		}
		if _, err := w.ds[2].Poll(make([]fabric.Event, 1)); err == nil {
			t.Error("the peer that has ended polls")
		}
		w.ds = w.ds[:2]
		w.arm(1)
		for _, want := range []string{"x from 2", "x from 2", "2 is down"} {
			w.arm(0)
			if got := w.poll(0); len(got) != 1 || !strings.HasPrefix(got[0], want) {
				t.Errorf("got %q, want %s", got, want)
			}
		}
		if err := w.send(0, 2, "x", 1); !errors.Is(err, fabric.ErrPeerDown) || errors.Is(err, fabric.ErrPeerClosed) != closes {
			t.Errorf("the next message: %v", err)
		}
		w.arm(0)
		if got := w.poll(1); len(got) != 1 || !strings.HasPrefix(got[0], "2 is down") {
			t.Errorf("the other peer got %q", got)
		}
	}
}

// TestConnectLater: a peer that connects to one that has ended is told.
func TestConnectLater(t *testing.T) {
	hub, err := NewHub(exact, []int{0, 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := hub.Transport().Open(context.Background(), &fabric.Config{Self: 0, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	hub.Fail(1, errors.New("lost"))
	ep, err := d.Connect(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	evs := make([]fabric.Event, 1)
	if n, err := d.Poll(evs); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	_, ready, err := d.Arm()
	if n, _ := d.Poll(evs); !ready || err != nil || n != 1 || evs[0].Kind != fabric.PeerDown {
		t.Errorf("%v, %v, %d events: %v", ready, err, n, evs[0])
	}
	if err := ep.Send([]byte("x"), nil); !errors.Is(err, fabric.ErrPeerDown) {
		t.Errorf("the next message: %v", err)
	}
}
