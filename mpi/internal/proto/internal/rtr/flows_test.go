package rtr

import (
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// TestOrder: the messages of a tag take the RTRs of this tag in order, and each only once. A
// message of another length than the buffer uses the RTR up, but is not written there.
func TestOrder(t *testing.T) {
	var f Flows
	x := f.Flow(1, 2)
	for i := range 3 {
		x.Add(Target{Tag: 7, Bytes: 100 + i, ID: uint64(i)}, 0, i)
	}
	x.Add(Target{Tag: 8, Bytes: 10, ID: 9}, 0, 0)
	for i, c := range []struct {
		tag   int32
		bytes int
		id    uint64
		ok    bool
	}{{7, 100, 0, true}, {9, 100, 0, false}, {7, 5, 1, false}, {8, 10, 9, true}, {7, 102, 2, true}, {7, 100, 0, false}} {
		got, ok := x.Take(c.tag, c.bytes)
		if ok != c.ok || ok && got.ID != c.id {
			t.Errorf("message %d took the RTR of %d, %v, want %d, %v", i, got.ID, ok, c.id, c.ok)
		}
	}
	if f.Flow(1, 2) != x || f.Known(1, 2) != x || f.Known(1, 3) != nil || f.Known(2, 2) != nil {
		t.Error("a context and a peer do not have one flow")
	}
}

// TestUnsure: an RTR is ignored if the receiver has not received all messages, or if RTRs of the
// same tag are missing.
func TestUnsure(t *testing.T) {
	for name, c := range map[string]struct {
		sent     int
		received uint32
		ahead    int
		want     bool
	}{
		"all known":                {3, 3, 0, true},
		"a message is in transit":  {3, 2, 0, false},
		"an RTR is missing":        {3, 3, 1, false},
		"counted from the restart": {0, 0, 0, true},
	} {
		var f Flows
		x := f.Flow(1, 2)
		x.Take(1, 1)
		f.Restart(1)
		for range c.sent {
			x.Take(1, 1)
		}
		x.Add(Target{Tag: 1, Bytes: 1}, c.received, c.ahead)
		if _, ok := x.Take(1, 1); ok != c.want {
			t.Errorf("%s: used %v", name, ok)
		}
	}
}

// TestDropped: no RTR is used after it was cancelled, its context has ended, or the count has begun
// anew. The memory of those that are left can be replaced.
func TestDropped(t *testing.T) {
	hidden := fabric.RemoteKey{Addr: 1, Key: 2}
	for name, drop := range map[string]func(*Flows){
		"cancelled": func(f *Flows) { f.Cancel(2, 5) },
		"removed":   func(f *Flows) { f.Remove(1) },
		"restarted": func(f *Flows) { f.Restart(1) },
	} {
		var f Flows
		f.Flow(1, 2).Add(Target{Tag: 1, Bytes: 1, ID: 5}, 0, 0)
		f.Flow(1, 3).Add(Target{Tag: 1, Bytes: 1, ID: 5}, 0, 0)
		f.SetKeys(3, hidden)
		drop(&f)
		if _, ok := f.Flow(1, 2).Take(1, 1); ok {
			t.Errorf("%s: used nevertheless", name)
		}
		got, ok := f.Flow(1, 3).Take(1, 1)
		if want := name == "cancelled"; ok != want || ok && got.Key != hidden {
			t.Errorf("%s: the RTR of another peer: %v, %+v", name, ok, got)
		}
	}
}

// TestEpoch: messages are counted anew in each epoch. Nothing is announced before one has arrived.
func TestEpoch(t *testing.T) {
	var f Flows
	if f.Known(1, 2).MayAnnounce(1, 0) {
		t.Error("announced without a message")
	}
	x := f.Flow(1, 2)
	for epoch := range uint32(3) {
		epoch++
		if x.MayAnnounce(epoch, 0) {
			t.Errorf("epoch %d: announced without a message", epoch)
		}
		for n := range uint32(4) {
			x.Count(epoch)
			if x.Received() != n+1 || !x.MayAnnounce(epoch, 0) || x.MayAnnounce(epoch, maxAheadOfTag) {
				t.Errorf("epoch %d: %d of %d messages", epoch, x.Received(), n+1)
			}
		}
	}
}
