package tcp

import (
	"crypto/rand"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// setMinAge sets how long a connection may take for its handshake at least.
func setMinAge(d *Domain, age time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attempts.unauthenticated.MinAge = age
}

// inHandshake returns how many accepted connections are in their handshake.
func inHandshake(d *Domain) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attempts.unauthenticated.Len()
}

// TestStrangersOfOneSource: clients of one address, however many and however young, do not keep out a peer of another one.
func TestStrangersOfOneSource(t *testing.T) {
	d, at := openTarget(t)
	setMinAge(d, time.Hour)
	stranger := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for range 3 * targetLimit {
		c, err := stranger.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	authenticate(t, d, at, 1)
	if n := inHandshake(d); n != targetLimit/2 {
		t.Errorf("%d connections of strangers are in their handshake, want %d", n, targetLimit/2)
	}
}

// TestManyPeersAtOnce: many peers of one host connect to one at the same moment. Those for which there is no place are dropped,
// and succeed later. With IBRUN_SOAK=1 there are hundreds.
func TestManyPeersAtOnce(t *testing.T) {
	peers := soaktest.Choose(300, 5*acceptBatch) // there are places for two batches
	// The timeout is long: no peer is lost, however long the handshakes of all of them take.
	tr := &Transport{Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit, Timeout: time.Hour}
	rand.Read(tr.Key[:])
	all := make([]*Domain, 1+peers)
	for i := range all {
		opened, err := tr.Open(t.Context(), &fabric.Config{Self: i, Size: len(all)})
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		all[i] = opened.(*Domain)
	}
	server := all[0]
	server.mu.Lock() // accepts nothing until all have connected
	server.attempts.unauthenticated.Limit = 2 * acceptBatch
	server.attempts.unauthenticated.MinAge = time.Hour
	for _, d := range all[1:] {
		if _, err := d.Connect(0, server.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	server.mu.Unlock()
	agreed, dropped := 0, false
	pollAll := func() {
		if ev := pollOne(t, server); ev.Kind != 0 {
			t.Fatalf("%+v", ev)
		}
		agreed = 0
		for _, d := range all[1:] {
			if n, err := d.Poll(make([]fabric.Event, 1)); n > 0 || err != nil {
				t.Fatalf("%d events, %v", n, err)
			}
			d.mu.Lock()
			e := d.peers[0]
			dropped = dropped || e.conn.backoff > 0
			if e.state == up {
				agreed++
			}
			d.mu.Unlock()
		}
	}
	for agreed < peers {
		before := agreed
		waittest.Poll(t, fmt.Sprintf("more than %d of %d peers are connected", before, peers), func() bool {
			pollAll()
			return agreed > before
		})
	}
	if !dropped {
		t.Error("none was dropped")
	}
}
