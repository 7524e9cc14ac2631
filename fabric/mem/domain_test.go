package mem

import (
	"runtime"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// TestCloseAfterFirstMessage: a peer that connects, sends and closes immediately is reported as closed after its message, however
// a Poll meets these steps. The test notifies the receiver, as a peer does that has made room, so Poll looks for a lane that may
// not exist yet. A correct order always passes. A wrong one is found by chance, since nothing can stop Poll between two loads,
// so there are many rounds.
func TestCloseAfterFirstMessage(t *testing.T) {
	open := func(hub *Hub, self int) *domain {
		d, err := hub.Transport().Open(t.Context(), &fabric.Config{Self: self, Size: 2})
		if err != nil {
			t.Fatal(err)
		}
		return d.(*domain)
	}
	for range 1500 {
		hub := NewHub(2)
		d, peer := open(hub, 0), open(hub, 1)
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
