//go:build linux

package rc

import (
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
	for a.ways[1].hands.phase != phaseUp {
		if err := a.ways[1].Send([]byte("message"), nil); err == nil {
			t.Fatal("sent without a connection")
		}
		polls(t, a, 1)
		if b.ways[0].hands.phase != phaseAnswered {
			polls(t, b, 1)
		}
	}
	e := b.ways[0]
	if err := b.takeDown(e); err != nil {
		t.Fatal(err)
	}
	e.hands.broken()                                           // as whoever takes a connection down goes on
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
