package mem

import (
	"errors"
	"runtime"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// TestCloseAfterFirstMessage: a peer that connects, sends and closes immediately is reported as closed after its message, however
// a Poll meets these steps. The test notifies the receiver, as a peer does that has made room, so Poll looks for a lane that may
// not exist yet. A correct order always passes. A wrong one is found by chance, since nothing can stop Poll between two loads,
// so there are many rounds.
func TestCloseAfterFirstMessage(t *testing.T) {
	for range 1500 {
		d, peer := openPair(t)
		sent := make(chan error, 1)
		go func() { sent <- sendAndClose(peer) }()
		var all []fabric.Event
		for i := 1; len(all) == 0 || all[len(all)-1].Kind != fabric.PeerDown; i++ {
			d.box.notify(1)
			var evs [2]fabric.Event
			n, err := d.Poll(evs[:])
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, evs[:n]...)
			if i%10_000 == 0 { // rarely, so that the peer runs on another processor if there is one
				runtime.Gosched()
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if len(all) != 2 || all[0].Kind != fabric.Message {
			t.Fatalf("received %+v, want a message and the end", all)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// sendAndClose sends one message to peer 0 and closes.
func sendAndClose(d *domain) error {
	ep, err := d.Connect(0, nil)
	if err == nil {
		err = ep.Send([]byte{1}, nil)
	}
	if err != nil {
		return err
	}
	return d.Close()
}

// TestConnectToClosed: a peer that has sent and closed can be connected to until its end was reported, so that what it has sent
// is read first.
func TestConnectToClosed(t *testing.T) {
	d, peer := openPair(t)
	if err := sendAndClose(peer); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Connect(1, nil); err != nil {
		t.Fatal(err)
	}
	var evs [2]fabric.Event
	n, err := d.Poll(evs[:])
	if err != nil || n != 2 || evs[0].Kind != fabric.Message || evs[1].Kind != fabric.PeerDown {
		t.Errorf("received %+v, %v; want a message and the end", evs[:n], err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestConnectAfterEnd: a peer whose end was reported cannot be connected to.
func TestConnectAfterEnd(t *testing.T) {
	d, peer := openPair(t)
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	var evs [2]fabric.Event
	if n, err := d.Poll(evs[:]); err != nil || n != 1 || evs[0].Kind != fabric.PeerDown {
		t.Errorf("received %+v, %v; want the end", evs[:n], err)
	}
	if _, err := d.Connect(1, nil); !errors.Is(err, fabric.ErrPeerClosed) {
		t.Errorf("connect: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReadAfterClose: a Read or Write after the peer has closed returns that reason, also before Poll has reported it.
func TestReadAfterClose(t *testing.T) {
	d, peer := openPair(t)
	far, err1 := peer.Register(make([]byte, 8))
	buf := make([]byte, 8)
	near, err2 := d.Register(buf)
	e, err3 := d.Connect(1, nil)
	if err := errors.Join(err1, err2, err3, peer.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Read(buf, near, far.Remote, 1); !errors.Is(err, fabric.ErrPeerClosed) {
		t.Errorf("Read returned %v", err)
	}
	if _, err := e.Write(buf, near, far.Remote, 2); !errors.Is(err, fabric.ErrPeerClosed) {
		t.Errorf("Write returned %v", err)
	}
}

// openPair opens both domains of a hub.
func openPair(t *testing.T) (d, peer *domain) {
	t.Helper()
	hub := NewHub(2)
	for self, to := range []**domain{&d, &peer} {
		opened, err := hub.Transport().Open(t.Context(), &fabric.Config{Self: self, Size: 2})
		if err != nil {
			t.Fatal(err)
		}
		*to = opened.(*domain)
	}
	return d, peer
}
