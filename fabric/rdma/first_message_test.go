//go:build linux

package rdma

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// TestPlayedFirstMessageLate: the first message over a connection is found only when that is taken down, because the peer has
// asked for another.
func TestPlayedFirstMessageLate(t *testing.T) {
	_, ds := openPlayed(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	mem := make([]byte, 64)
	reg, err := b.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	far, err := a.Register(mem)
	if err != nil {
		t.Fatal(err)
	}
	for a.eps[1].conn.state != stateEstablished {
		if err := a.eps[1].Send([]byte("message"), nil); err == nil {
			t.Fatal("sent without a connection")
		}
		polls(t, a, 1)
		if b.eps[0].conn.state != stateREPSent {
			polls(t, b, 1)
		}
	}
	e := b.eps[0]
	if err := b.closeConn(e); err != nil {
		t.Fatal(err)
	}
	e.conn.reset()                                             // as whoever takes a connection down goes on
	if _, err := e.Read(mem, reg, far.Remote, 7); err != nil { // there is no queue pair to post it to
		t.Fatal(err)
	}
	var got []fabric.Event
	for range enough {
		polls(t, a, 1)
		got = append(got, polls(t, b, 1)...)
	}
	if len(got) != 1 || got[0].Token != 7 || got[0].Err != nil {
		t.Errorf("after another connection was made: %+v", got)
	}
}

// TestPlayedNoSlotForHello: who asked for a connection has no slot free when it stands, and nothing to send. The peer is told
// that it stands as soon as there is one.
func TestPlayedNoSlotForHello(t *testing.T) {
	_, ds := openPlayed(t, Settings{Devices: []string{"a"}, Pool: 1}, 2)
	a, b := ds[0], ds[1]
	src, dst := make([]byte, 64), make([]byte, 64)
	far, err1 := b.Register(src)
	near, err2 := a.Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	var all []uint32
	for slot, ok := a.sends.take(); ok; slot, ok = a.sends.take() {
		all = append(all, slot)
	}
	if _, err := a.eps[1].Read(dst, near, far.Remote, 1); err != nil {
		t.Fatal(err)
	}
	var got []fabric.Event
	for range enough {
		got = append(got, polls(t, a, 1)...)
		polls(t, b, 1)
	}
	if len(got) != 1 || got[0].Token != 1 || b.eps[0].conn.state != stateREPSent {
		t.Fatalf("%+v, phase %d", got, b.eps[0].conn.state)
	}
	for _, slot := range all {
		a.sends.give(slot)
	}
	for range enough {
		polls(t, a, 1)
		polls(t, b, 1)
	}
	if err := b.eps[0].Send([]byte("message"), nil); err != nil {
		t.Errorf("phase %d: %v", b.eps[0].conn.state, err)
	}
}
