//go:build linux

package rdma

import "testing"

// TestPlayedGrantAfterAnswer: a connection breaks when the receiver has all that its peer may send. What it gives back after it
// has answered, and before it knows that the new connection stands, is granted all the same, whichever of its answers arrived.
func TestPlayedGrantAfterAnswer(t *testing.T) {
	for _, again := range []bool{false, true} {
		_, ds := openPlayed(t, Settings{Devices: []string{"a"}, Window: 1}, 2)
		a, b := ds[0], ds[1]
		meet(t, a, b)
		for b.clock.polls%progressEvery != progressEvery-1 { // the next Poll sees to everything
			polls(t, b, 1)
		}
		sent := 0
		for a.eps[1].Send([]byte("message"), nil) == nil {
			sent++
		}
		a.ringDeferred()
		breakUp(t, a, b)
		if got := polls(t, b, 1); len(got) != sent {
			t.Fatalf("%d messages came, and %d were sent: %+v", len(got), sent, got)
		}
		for range enough { // ends the loans
			if got := polls(t, b, 1); len(got) > 0 {
				t.Fatalf("%+v", got)
			}
		}
		if b.eps[0].conn.state != stateREPSent {
			t.Fatalf("phase %d", b.eps[0].conn.state)
		}
		if again {
			a.sendREQ(a.eps[1], 0)
			polls(t, b, enough)
		}
		for range enough {
			polls(t, a, 1)
			polls(t, b, 1)
		}
		if err := a.eps[1].Send([]byte("message"), nil); err != nil {
			t.Errorf("asked again %v: after the new connection stands: %v", again, err)
		}
	}
}
