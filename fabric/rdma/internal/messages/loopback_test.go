package messages

import (
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// source is a Source of these bytes, of which only Pack is called.
type source struct {
	fabric.Parts
	bytes string
}

func (s source) Pack(dst []byte, from int64) int { return copy(dst, s.bytes[from:]) }

// TestLoopback: messages arrive in order. Their bytes stay until the slots are released, and a
// sender waits while all slots are in use.
func TestLoopback(t *testing.T) {
	l := Loopback{Bytes: 64}
	sent := 0
	for l.Send([]byte{byte(sent)}, []byte("payload")) == nil {
		sent++
	}
	if sent != loopbackSlots || !l.Pending() {
		t.Errorf("%d messages were queued, pending: %v", sent, l.Pending())
	}
	evs := make([]fabric.Event, loopbackSlots+1)
	n := l.Deliver(evs[:3], 5)
	n += l.Deliver(evs[n:], 5)
	if n != sent || l.Pending() {
		t.Errorf("%d of %d messages were delivered", n, sent)
	}
	if err := l.Send(nil, nil); err != fabric.ErrAgain {
		t.Errorf("while all are borrowed: %v", err)
	}
	for i, ev := range evs[:n] {
		if want := string([]byte{byte(i)}) + "payload"; string(ev.Data) != want || ev.Peer != 5 || ev.Kind != fabric.Message {
			t.Errorf("message %d: %+v", i, ev)
		}
	}
	l.Release()
	if err := l.SendFrom(5, []byte("h"), source{bytes: "0123456789"}, 2, 4); err != nil {
		t.Fatal(err)
	}
	if n := l.Deliver(evs, 5); n != 1 || string(evs[0].Data) != "h2345" {
		t.Errorf("%d messages, %q", n, evs[0].Data)
	}
	err := l.SendFrom(5, nil, source{bytes: "0123456789"}, 8, 4)
	if err == nil || !strings.Contains(err.Error(), "fewer than 4 bytes from byte 8") || l.Pending() {
		t.Errorf("a source that is too short: %v, pending: %v", err, l.Pending())
	}
	if l.Send(nil, nil); !l.Pending() {
		t.Error("nothing is queued")
	}
	if l.Clear(); l.Pending() || l.Deliver(evs, 5) != 0 {
		t.Error("a message is delivered that was dropped")
	}
}
