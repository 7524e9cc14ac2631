package rdma

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// wire carries messages one way, in order, each after a while.
type wire struct{ messages []header }

// account is one side: its two accounts, and what a real one would have besides.
type account struct {
	in     inbound
	out    outbound
	slots  int      // set aside for this peer
	held   []uint32 // messages of data that were taken and not freed
	notice int      // messages without data that were sent
}

// send sends data if there is room.
func (a *account) send(w *wire) bool {
	if !a.out.hasCredit() {
		return false
	}
	w.messages = append(w.messages, header{a.out.sent, a.in.grant(), a.out.grant, kindData, a.out.sent+1 == a.out.grant})
	a.out.sent++
	a.in.granted = a.in.grant()
	return true
}

// notify sends a grant if one is due.
func (a *account) notify(w *wire) {
	if !a.in.creditDue() {
		return
	}
	w.messages = append(w.messages, header{a.out.sent, a.in.grant(), a.out.grant, kindCredit, false})
	a.in.granted, a.in.controlGrant, a.in.controlUnacked = a.in.grant(), a.in.grant(), true
	a.notice++
}

// take takes the next message off the wire.
func (a *account) take(t *testing.T, w *wire, limit uint32) {
	if len(w.messages) == 0 {
		return
	}
	h := w.messages[0]
	w.messages = w.messages[1:]
	if err := errors.Join(a.in.receive(&h), a.out.receiveGrant(h.grant)); err != nil {
		t.Fatal(err)
	}
	if h.kind != kindData {
		return // its slot is posted again at once
	}
	a.held = append(a.held, h.seq)
	if h.needsCredits {
		w := a.in.nextWindow(limit)
		a.slots += int(w - a.in.window)
		a.in.window = w
	}
}

// TestCreditNeverOverruns: whatever the order of things, a message finds a slot, and who waits is granted more.
func TestCreditNeverOverruns(t *testing.T) {
	seed := rand.Uint64()
	for _, limit := range []uint32{1, 2, 3, 4, 7, 64} {
		for _, start := range []uint32{0, 1<<32 - 5} {
			r := rand.New(rand.NewPCG(seed, uint64(limit)))
			creditRun(t, r, limit, start)
		}
	}
	t.Logf("seed %d", seed)
}

func creditRun(t *testing.T, r *rand.Rand, limit, start uint32) {
	var sides [2]account
	var wires [2]wire // from side i
	for i := range sides {
		in := inbound{received: start, freed: start, window: initialWindow}
		in.granted = in.grant()
		sides[i] = account{in: in, out: outbound{sent: start, grant: start + initialWindow}, slots: initialWindow + 1}
	}
	const each = 3000
	under := func() int { return len(wires[0].messages) + len(wires[1].messages) }
	for sent, steps := [2]int{}, 0; sent[0] < each || sent[1] < each || under() > 0; steps++ {
		if steps > 1_000_000 {
			t.Fatalf("limit %d: stuck after %v messages: %+v", limit, sent, sides)
		}
		i := r.IntN(2)
		a, w := &sides[i], &wires[i]
		switch r.IntN(4) {
		case 0:
			for range r.IntN(8) {
				if sent[i] < each && a.send(w) {
					sent[i]++
				}
			}
		case 1, 2:
			a.take(t, &wires[1-i], limit)
		default:
			for range len(a.held) {
				a.held = a.held[1:]
				a.in.freed++
				a.notify(w)
			}
			a.notify(w)
		}
		for j := range sides {
			if under := len(wires[1-j].messages) + len(sides[j].held); under > sides[j].slots {
				t.Fatalf("limit %d: %d messages for %d slots", limit, under, sides[j].slots)
			}
		}
	}
	if total := sides[0].notice + sides[1].notice; limit == 64 && total > each {
		t.Errorf("%d messages that only grant, for %d of data", total, 2*each)
	}
}

func TestCreditLies(t *testing.T) {
	in := inbound{received: 5, freed: 5, window: 2, granted: 6}
	for name, h := range map[string]header{
		"again":  {seq: 4, kind: kindData},
		"gap":    {seq: 6, kind: kindData},
		"notice": {seq: 6, kind: kindCredit},
	} {
		if err := in.receive(&h); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := in.receive(&header{seq: 5, kind: kindData}); err != nil {
		t.Error(err)
	}
	if err := in.receive(&header{seq: 6, kind: kindData}); !errors.Is(err, fabric.ErrCorrupt) {
		t.Errorf("a message that was not granted: %v", err)
	}
	out := outbound{sent: 10, grant: 12}
	if err := out.receiveGrant(10 + maxGrantAhead + 1); !errors.Is(err, fabric.ErrCorrupt) || out.grant != 12 {
		t.Errorf("a grant of a million: %v", err)
	}
	if err := out.receiveGrant(11); err != nil || out.grant != 12 {
		t.Errorf("an old grant: %v, %d", err, out.grant)
	}
}
