package messages

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/soaktest"
)

// messageQueue carries messages in one direction, in order, with any delay.
type messageQueue struct{ messages []Header }

// account is one side: its accounts for both directions, and what a real endpoint has in addition.
type account struct {
	in       Inbound
	out      Outbound
	slots    int      // reserved for this peer
	held     []uint32 // data messages that were received and not freed
	controls int      // control messages that were sent
}

// send sends a data message if there is a credit.
func (a *account) send(w *messageQueue) bool {
	if !a.out.HasCredit() {
		return false
	}
	w.messages = append(w.messages, Header{a.out.Sent, a.in.Grant(), a.out.Grant, Data, a.out.Sent+1 == a.out.Grant})
	a.out.Sent++
	a.in.Granted = a.in.Grant()
	return true
}

// sendCredit sends a credit update if one is due.
func (a *account) sendCredit(w *messageQueue) {
	if !a.in.CreditDue() {
		return
	}
	w.messages = append(w.messages, Header{a.out.Sent, a.in.Grant(), a.out.Grant, Credit, false})
	a.in.Granted, a.in.ControlGrant, a.in.ControlUnacked = a.in.Grant(), a.in.Grant(), true
	a.controls++
}

// receive takes the next message out of the queue.
func (a *account) receive(t *testing.T, w *messageQueue, limit uint32) {
	if len(w.messages) == 0 {
		return
	}
	h := w.messages[0]
	w.messages = w.messages[1:]
	if err := errors.Join(a.in.Receive(&h), a.out.ReceiveGrant(h.Grant)); err != nil {
		t.Fatal(err)
	}
	if h.Kind != Data {
		return // its slot is posted again immediately
	}
	a.held = append(a.held, h.Seq)
	if h.NeedsCredits {
		w := a.in.NextWindow(limit)
		a.slots += int(w - a.in.Window)
		a.in.Window = w
	}
}

// TestCreditNeverOverruns: in any order of events, a message finds a free slot, and a waiting
// sender is granted more credits.
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
		in := Inbound{Received: start, Freed: start, Window: InitialWindow}
		in.Granted = in.Grant()
		sides[i] = account{in: in, out: Outbound{Sent: start, Grant: start + InitialWindow}, slots: InitialWindow + 1}
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
				a.in.Freed++
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
	in := Inbound{Received: 5, Freed: 5, Window: 2, Granted: 6}
	for name, h := range map[string]Header{
		"again":  {Seq: 4, Kind: Data},
		"gap":    {Seq: 6, Kind: Data},
		"notice": {Seq: 6, Kind: Credit},
	} {
		if err := in.Receive(&h); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := in.Receive(&Header{Seq: 5, Kind: Data}); err != nil {
		t.Error(err)
	}
	if err := in.Receive(&Header{Seq: 6, Kind: Data}); !errors.Is(err, fabric.ErrCorrupt) {
		t.Errorf("a message without a credit: %v", err)
	}
	out := Outbound{Sent: 10, Grant: 12}
	if err := out.ReceiveGrant(10 + maxGrantAhead + 1); !errors.Is(err, fabric.ErrCorrupt) || out.Grant != 12 {
		t.Errorf("a grant of a million: %v", err)
	}
	if err := out.ReceiveGrant(11); err != nil || out.Grant != 12 {
		t.Errorf("an old grant: %v, %d", err, out.Grant)
	}
}
