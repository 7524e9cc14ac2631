package rdma

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/soaktest"
)

// messageQueue carries messages in one direction, in order, with any delay.
type messageQueue struct{ messages []header }

// account is one side: its accounts for both directions, and what a real endpoint has in addition.
type account struct {
	in       inbound
	out      outbound
	slots    int      // reserved for this peer
	held     []uint32 // data messages that were received and not freed
	controls int      // control messages that were sent
}

// send sends a data message if there is a credit.
func (a *account) send(w *messageQueue) bool {
	if !a.out.hasCredit() {
		return false
	}
	w.messages = append(w.messages, header{a.out.sent, a.in.grant(), a.out.grant, kindData, a.out.sent+1 == a.out.grant})
	a.out.sent++
	a.in.granted = a.in.grant()
	return true
}

// sendCredit sends a credit update if one is due.
func (a *account) sendCredit(w *messageQueue) {
	if !a.in.creditDue() {
		return
	}
	w.messages = append(w.messages, header{a.out.sent, a.in.grant(), a.out.grant, kindCredit, false})
	a.in.granted, a.in.controlGrant, a.in.controlUnacked = a.in.grant(), a.in.grant(), true
	a.controls++
}

// receive takes the next message out of the queue.
func (a *account) receive(t *testing.T, w *messageQueue, limit uint32) {
	if len(w.messages) == 0 {
		return
	}
	h := w.messages[0]
	w.messages = w.messages[1:]
	if err := errors.Join(a.in.receive(&h), a.out.receiveGrant(h.grant)); err != nil {
		t.Fatal(err)
	}
	if h.kind != kindData {
		return // its slot is posted again immediately
	}
	a.held = append(a.held, h.seq)
	if h.needsCredits {
		w := a.in.nextWindow(limit)
		a.slots += int(w - a.in.window)
		a.in.window = w
	}
}

// TestCreditNeverOverruns: in any order of events, a message finds a free slot, and a waiting sender is granted more credits.
func TestCreditNeverOverruns(t *testing.T) {
	seed := soaktest.Seed(t)
	for _, limit := range []uint32{1, 2, 3, 4, 7, 64} {
		for _, start := range []uint32{0, 1<<32 - 5} {
			r := rand.New(rand.NewPCG(seed, uint64(limit)))
			runCredits(t, r, limit, start)
		}
	}
	t.Logf("seed %d", seed)
}

func runCredits(t *testing.T, r *rand.Rand, limit, start uint32) {
	var sides [2]account
	var queues [2]messageQueue // from side i
	for i := range sides {
		in := inbound{received: start, freed: start, window: initialWindow}
		in.granted = in.grant()
		sides[i] = account{in: in, out: outbound{sent: start, grant: start + initialWindow}, slots: initialWindow + 1}
	}
	const each = 3000
	under := func() int { return len(queues[0].messages) + len(queues[1].messages) }
	for sent, steps := [2]int{}, 0; sent[0] < each || sent[1] < each || under() > 0; steps++ {
		if steps > 1_000_000 {
			t.Fatalf("limit %d: stuck after %v messages: %+v", limit, sent, sides)
		}
		i := r.IntN(2)
		a, w := &sides[i], &queues[i]
		switch r.IntN(4) {
		case 0:
			for range r.IntN(8) {
				if sent[i] < each && a.send(w) {
					sent[i]++
				}
			}
		case 1, 2:
			a.receive(t, &queues[1-i], limit)
		default:
			for range len(a.held) {
				a.held = a.held[1:]
				a.in.freed++
				a.sendCredit(w)
			}
			a.sendCredit(w)
		}
		for j := range sides {
			if under := len(queues[1-j].messages) + len(sides[j].held); under > sides[j].slots {
				t.Fatalf("limit %d: %d messages for %d slots", limit, under, sides[j].slots)
			}
		}
	}
	if total := sides[0].controls + sides[1].controls; limit == 64 && total > each {
		t.Errorf("%d control messages for %d data messages", total, 2*each)
	}
}

func TestCreditViolations(t *testing.T) {
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
		t.Errorf("a message without a credit: %v", err)
	}
	out := outbound{sent: 10, grant: 12}
	if err := out.receiveGrant(10 + maxGrantAhead + 1); !errors.Is(err, fabric.ErrCorrupt) || out.grant != 12 {
		t.Errorf("a grant of a million: %v", err)
	}
	if err := out.receiveGrant(11); err != nil || out.grant != 12 {
		t.Errorf("an old grant: %v, %d", err, out.grant)
	}
}
