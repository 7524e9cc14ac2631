//go:build linux

package rdma

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// localPeers is two peers in this process that are connected to each other.
type localPeers struct {
	t    *testing.T
	d    [2]*domain
	ep   [2]fabric.Endpoint
	sent [2]uint64 // messages that each peer has sent with exchange
	got  [2]uint64 // messages that have arrived at each peer
	done map[uint64]error
}

func openLocalPeers(t *testing.T, set Settings) *localPeers {
	t.Helper()
	if set.Devices == nil {
		set.Devices = []string{live.Device(t)}
	}
	return openPeersOn(t, [2]Settings{set, set})
}

// openPeersOn is openLocalPeers with settings, such as devices, for each peer.
func openPeersOn(t *testing.T, sets [2]Settings) *localPeers {
	t.Helper()
	w := &localPeers{t: t, d: openDomainsOn(t, sets), done: map[uint64]error{}}
	for i := range w.d {
		var err error
		if w.ep[i], err = w.d[i].Connect(1-i, w.d[1-i].Addr()); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// openDomainsOn opens the domains of two peers that are not connected.
func openDomainsOn(t *testing.T, sets [2]Settings) (domains [2]*domain) {
	t.Helper()
	var key [32]byte
	rand.Read(key[:])
	for i := range domains {
		tr := &Transport{Key: key, Settings: sets[i]}
		d, err := tr.Open(t.Context(), &fabric.Config{Self: i, Size: 2})
		if err != nil {
			t.Fatal(err)
		}
		domains[i] = d.(*domain)
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return domains
}

// poll polls both peers once. Messages are numbered, and must arrive in order.
func (w *localPeers) poll() {
	w.t.Helper()
	var evs [8]fabric.Event
	for i, d := range w.d {
		n, err := d.Poll(evs[:])
		if err != nil {
			w.t.Fatal(err)
		}
		for _, ev := range evs[:n] {
			switch ev.Kind {
			case fabric.Message:
				if got := binary.LittleEndian.Uint64(ev.Data); got != w.got[i] {
					w.t.Fatalf("peer %d got message %d in place of %d", i, got, w.got[i])
				}
				w.got[i]++
			case fabric.Done:
				w.done[ev.Token] = ev.Err
			default:
				w.t.Fatalf("%+v", ev)
			}
		}
	}
}

func (w *localPeers) until(what string, so func() bool) {
	w.t.Helper()
	defer waittest.LogIfFailed(w.t, func() string { return fmt.Sprintf("%+v", w.d[0].eps[1]) })
	waittest.Poll(w.t, what, func() bool {
		if so() {
			return true
		}
		w.poll()
		return false
	})
}

// send sends message n from peer i.
func (w *localPeers) send(i int, n uint64) {
	w.t.Helper()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	w.until("room", func() bool {
		err := w.ep[i].Send(b[:], nil)
		if err != nil && err != fabric.ErrAgain {
			w.t.Fatal(err)
		}
		return err == nil
	})
}

// TestLiveReconnect: a connection breaks because the peer rejects a request and because queue pairs fail. No message is lost or
// delivered twice, and reads in flight complete.
func TestLiveReconnect(t *testing.T) {
	w := openLocalPeers(t, Settings{})
	mem, dst := make([]byte, 1<<16), make([]byte, 1<<16)
	rand.Read(mem)
	far, err1 := w.d[1].Register(mem)
	near, err2 := w.d[0].Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	var sent [2]uint64
	token := uint64(0)
	for round := range 6 {
		for range 100 {
			for i := range sent {
				w.send(i, sent[i])
				sent[i]++
			}
		}
		bad := far.Remote
		bad.Addr += 1 << 30
		token += 2
		for j, at := range []fabric.RemoteKey{bad, far.Remote} {
			if _, err := w.ep[0].Read(dst, near, at, token+uint64(j)); err != nil {
				t.Fatal(err)
			}
		}
		if round%2 == 1 { // the peer's queue pair fails, too
			if err := w.d[1].eps[0].lanes.Queues[0].QP.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
				t.Fatal(err)
			}
		}
		w.until("the end of the reads", func() bool { return len(w.done) == int(token) })
		if err := w.done[token]; !errors.Is(err, verbs.StatusRemoteAccess) {
			t.Errorf("a read of memory that is not registered: %v", err)
		}
		if err := w.done[token+1]; err != nil || string(dst) != string(mem) {
			t.Errorf("the read after that: %v", err)
		}
		clear(dst)
	}
	w.until("all messages", func() bool { return w.got[0] == sent[1] && w.got[1] == sent[0] })
	if e := w.d[0].eps[1].conn.Epoch; e < 6 {
		t.Errorf("epoch %d after six breaks", e)
	}
}
