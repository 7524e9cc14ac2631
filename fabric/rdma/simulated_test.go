//go:build linux

package rdma

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// openPlayed opens peers on a network that is played, and connects their endpoints.
func openPlayed(t *testing.T, set Settings, peers int) (*verbstest.Played, []*domain) {
	t.Helper()
	net := verbstest.Play()
	tr := &Transport{Settings: set, openDevice: net.Open}
	rand.Read(tr.Key[:])
	ds := make([]*domain, peers)
	for i := range ds {
		fd, err := tr.Open(t.Context(), &fabric.Config{Self: i, Size: peers})
		if err != nil {
			t.Fatal(err)
		}
		d := fd.(*domain)
		ds[i] = d
		t.Cleanup(func() {
			if !d.mu.TryLock() {
				return // the test has panicked, and says so if this does not wait
			}
			d.mu.Unlock()
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for i, d := range ds {
		for j, o := range ds {
			if _, err := d.Connect(j, o.Addr()); i != j && err != nil {
				t.Fatal(err)
			}
		}
	}
	return net, ds
}

// polls polls a domain so often, and returns what came; the bytes of messages are lent only until the last.
func polls(t *testing.T, d *domain, times int) (got []fabric.Event) {
	t.Helper()
	var evs [16]fabric.Event
	for range times {
		n, err := d.Poll(evs[:])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, evs[:n]...)
	}
	return got
}

// enough is so many polls that everything is done that needs no time.
const enough = 50

// meet connects two peers by a message from the first, which the second takes.
func meet(t *testing.T, a, b *domain) {
	t.Helper()
	send(t, a, b)
	for range enough {
		if got := polls(t, b, 1); len(got) == 1 {
			polls(t, b, 4) // ends the loan, and grants
			polls(t, a, 4)
			return
		}
		polls(t, a, 1)
	}
	t.Fatal("the first message does not come")
}

// send sends a message, which takes a while if the two are not connected.
func send(t *testing.T, a, b *domain) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		err := a.eps[b.self].Send([]byte("message"), nil)
		if err == nil {
			return
		}
		if err != fabric.ErrAgain {
			t.Fatal(err)
		}
		polls(t, a, 1)
		polls(t, b, 1)
	}
	t.Fatal("there is no room for a message")
}

// breakUp has the connection of a to b break, and a ask for another.
func breakUp(t *testing.T, a, b *domain) {
	t.Helper()
	q := a.eps[b.self].qps[0].qp
	if err := q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	a.declareBroken(a.eps[b.self], verbs.ErrState)
	polls(t, a, 4)
}

// TestPlayedMessages is the rig itself: messages both ways.
func TestPlayedMessages(t *testing.T) {
	_, ds := openPlayed(t, Settings{Devices: []string{"a"}}, 2)
	meet(t, ds[0], ds[1])
	meet(t, ds[1], ds[0])
}
