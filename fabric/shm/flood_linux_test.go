package shm

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

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
