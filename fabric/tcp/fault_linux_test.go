package tcp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// openDomains opens domains of one job over loopback.
func openDomains(t *testing.T, tr *Transport, n int) (ds []*Domain) {
	t.Helper()
	for self := range n {
		d, err := tr.Open(t.Context(), &fabric.Config{Self: self, Size: n})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		ds = append(ds, d.(*Domain))
	}
	return ds
}

func connectTo(t *testing.T, d *Domain, peer int, addr []byte) fabric.Endpoint {
	t.Helper()
	e, err := d.Connect(peer, addr)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// exchange lets two peers of a pair send each other a message. It polls them in random order, and checks that these messages
// arrive and nothing else.
func exchange(t *testing.T, ds [2]*Domain, es [2]fabric.Endpoint, r *rand.Rand, text string) {
	t.Helper()
	var sent, got [2]bool
	var evs [4]fabric.Event
	state := func() string { return fmt.Sprintf("%q: sent %v, arrived %v", text, sent, got) }
	pollUntilDone(t, "a message arrives at each of two peers", state, func() bool {
		i := r.IntN(2)
		if !sent[i] {
			err := es[i].Send([]byte(text), nil)
			if err != nil && err != fabric.ErrAgain {
				t.Fatal(err)
			}
			sent[i] = err == nil
		}
		n, err := ds[i].Poll(evs[:r.IntN(len(evs))])
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range evs[:n] {
			if ev.Kind != fabric.Message || string(ev.Data) != text || got[i] {
				t.Fatalf("%q: %+v arrived at %d, which has it already: %v", text, ev, i, got[i])
			}
			got[i] = true
		}
		return sent == [2]bool{true, true} && got == sent
	})
}

// TestBothDial: two peers that connect to each other at the same time end up with one connection, over which everything arrives
// once.
func TestBothDial(t *testing.T) {
	seed := soaktest.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	tr := &Transport{Key: [32]byte{2: 1}, Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit}
	for range 30 {
		all := openDomains(t, tr, 2)
		ds := [2]*Domain{all[0], all[1]}
		var es [2]fabric.Endpoint
		for _, i := range r.Perm(2) {
			es[i] = connectTo(t, ds[i], 1-i, ds[1-i].Addr())
			for range r.IntN(3) {
				if _, err := ds[i].Poll(nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, text := range []string{"first", "second", "third"} {
			exchange(t, ds, es, r, text)
		}
		state := func() string {
			return fmt.Sprintf("%d and %d handshakes are in progress", openHandshakes(ds[0]), openHandshakes(ds[1]))
		}
		pollUntilDone(t, "the other attempt ends, too", state, func() bool {
			for _, d := range ds {
				if n, err := d.Poll(make([]fabric.Event, 1)); n != 0 || err != nil {
					t.Fatal(n, err)
				}
			}
			return openHandshakes(ds[0])+openHandshakes(ds[1]) == 0
		})
		exchange(t, ds, es, r, "last")
	}
}

// openHandshakes returns how many handshakes are in progress.
func openHandshakes(d *Domain) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, hs := range d.attempts.handshakes {
		if hs != nil {
			n++
		}
	}
	return n
}

// TestCloseWhenFull: what was sent before Close arrives, and the shutdown behind it, even if not a byte more would have fit.
func TestCloseWhenFull(t *testing.T) {
	tr := &Transport{Interfaces: []string{"127.0.0.1/32"}, socketBuffer: 64 << 10}
	ds := openDomains(t, tr, 2)
	there := connectTo(t, ds[0], 1, ds[1].Addr())
	var evs [32]fabric.Event
	sent, took := 0, 0
	poll := func(d *Domain) []fabric.Event {
		n, err := d.Poll(evs[:])
		if err != nil {
			t.Fatal(err)
		}
		return evs[:n]
	}
	state := func() string { return fmt.Sprintf("%d of %d messages arrived", took, sent) }
	pollUntilDone(t, "no message fits", state, func() bool { // empty ones: less than another header remains of the buffer
		err := there.Send(nil, nil)
		if err == nil {
			sent++
		} else if err != fabric.ErrAgain {
			t.Fatal(err)
		} else if sent == 0 {
			poll(ds[0])
			took += len(poll(ds[1]))
		}
		return err != nil && sent > 0
	})
	if err := there.Close(); err != nil {
		t.Fatal(err)
	}
	pollUntilDone(t, "the shutdown arrives", state, func() bool {
		poll(ds[0])
		for _, ev := range poll(ds[1]) {
			if ev.Kind == fabric.PeerDown {
				if took != sent || !errors.Is(ev.Err, fabric.ErrPeerClosed) {
					t.Errorf("%d of %d messages arrived, and then: %v", took, sent, ev.Err)
				}
				return true
			}
			took++
		}
		return false
	})
}

// TestStalePeer: a peer of an earlier run, which has another secret and still tries to connect, does not get in, and the peers of
// this run are not affected.
func TestStalePeer(t *testing.T) {
	old := &Transport{Key: [32]byte{9}, Interfaces: []string{"127.0.0.1/32"}, Timeout: time.Second, Linger: waittest.Limit}
	now := &Transport{Key: [32]byte{8}, Interfaces: old.Interfaces, Linger: old.Linger}
	all := openDomains(t, now, 2)
	ds := [2]*Domain{all[0], all[1]}
	stale := openDomains(t, old, 2)[1]
	lost := connectTo(t, stale, 0, ds[0].Addr())
	es := [2]fabric.Endpoint{connectTo(t, ds[0], 1, ds[1].Addr()), connectTo(t, ds[1], 0, ds[0].Addr())}
	r := rand.New(rand.NewPCG(1, 2))
	var ev fabric.Event
	waittest.Poll(t, "the stale peer gives up", func() bool {
		exchange(t, ds, es, r, "of this run")
		if err := lost.Send([]byte("of an earlier run"), nil); err != fabric.ErrAgain && !errors.Is(err, fabric.ErrPeerDown) {
			t.Fatalf("sent by the stale peer: %v", err)
		}
		var evs [1]fabric.Event
		if _, err := stale.Poll(evs[:]); err != nil {
			t.Fatal(err)
		}
		ev = evs[0]
		return ev.Kind != 0
	})
	if ev.Kind != fabric.PeerDown || !errors.Is(ev.Err, fabric.ErrPeerDown) ||
		!strings.Contains(ev.Err.Error(), "cannot be reached") {
		t.Errorf("the stale peer got %+v", ev)
	}
	exchange(t, ds, es, r, "afterwards")
}

// TestOptionsDiffer: peers with different settings are lost to each other immediately, and both say why.
func TestOptionsDiffer(t *testing.T) {
	with := &Transport{Key: [32]byte{4}, Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit}
	without := &Transport{Key: with.Key, Interfaces: with.Interfaces, Linger: with.Linger, NoChecksum: true}
	for _, client := range []int{0, 1} {
		ds := []*Domain{openDomains(t, with, 2)[0], openDomains(t, without, 2)[1]}
		connectTo(t, ds[client], 1-client, ds[1-client].Addr())
		var down [2]fabric.Event
		state := func() string { return fmt.Sprintf("peer %d connects: %+v", client, down) }
		pollUntilDone(t, "both peers are lost", state, func() bool {
			for i, d := range ds {
				if ev := pollOne(t, d); ev.Kind != 0 {
					down[i] = ev
				}
			}
			return down[0].Kind != 0 && down[1].Kind != 0
		})
		for i, want := range []string{"its checksums are off, and those of this process are on", "its checksums are on"} {
			err := down[i].Err
			if !errors.Is(err, fabric.ErrPeerDown) || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "set IBRUN_CHECKSUM to the same value") {
				t.Errorf("peer %d connects, peer %d: %v", client, i, err)
			}
		}
	}
}

// TestPortScan: a scan of the port, of any kind, blocks nothing and leaves nothing behind.
func TestPortScan(t *testing.T) {
	tr := &Transport{Key: [32]byte{7}, Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit}
	all := openDomains(t, tr, 2)
	ds := [2]*Domain{all[0], all[1]}
	es := [2]fabric.Endpoint{connectTo(t, ds[0], 1, ds[1].Addr()), connectTo(t, ds[1], 0, ds[0].Addr())}
	r := rand.New(rand.NewPCG(3, 4))
	exchange(t, ds, es, r, "before")
	places, err := parseAddress(ds[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	open := descriptors(t)
	for i := range 400 {
		c, err := net.Dial("tcp", places[0].String())
		if err != nil {
			t.Fatal(err)
		}
		switch i % 3 {
		case 0: // closed by a reset, as scanners do
			err = c.(*net.TCPConn).SetLinger(0)
		case 1:
			_, err = c.Write([]byte("\x16\x03\x01 and so on"))
		}
		if err = errors.Join(err, c.Close()); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			exchange(t, ds, es, r, "meanwhile")
		}
	}
	state := func() string {
		return fmt.Sprintf("%d handshakes and %d descriptors are left, %d before", openHandshakes(ds[0]), descriptors(t), open)
	}
	pollUntilDone(t, "nothing is left", state, func() bool {
		exchange(t, ds, es, r, "afterwards")
		return openHandshakes(ds[0]) == 0 && descriptors(t) <= open
	})
}

// descriptors returns how many descriptors this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
