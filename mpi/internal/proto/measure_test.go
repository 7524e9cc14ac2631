package proto

import (
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/cost"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// TestMeasuredMessages: both sides measure the messages that the sender has marked, and the sender
// chooses by these times. The clock is made: it passes quickly either for messages in fragments or
// for others.
func TestMeasuredMessages(t *testing.T) {
	for _, slow := range []bool{false, true} {
		count := &kindCounter{}
		es := open(t, 2, func(tr fabric.Transport) fabric.Transport {
			count.Transport = variant{fragments: true, measured: true}.wrap(tr)
			return count
		}, nil)
		var mu sync.Mutex
		now, seen, fragments := time.Duration(0), [2]int32{}, false // fragments: the message on its way is in fragments
		clock := func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			if n := [2]int32{count.sent[wire.FirstFrag].Load(), count.sent[wire.RTS].Load()}; n != seen {
				seen, fragments = n, n[0] != seen[0]
			}
			if now++; slow == fragments {
				now += time.Millisecond
			}
			return now
		}
		es[0].links.now, es[1].links.now = clock, clock
		const n, messages = 50_000, 1000
		each(t, es, func(self int, e *Engine) error {
			for range messages {
				if self == 0 {
					if _, err := e.Recv(from(1, 2), nil); err != nil {
						return err
					}
					if err := e.Send(to(0, 1, 1), make([]byte, n), Standard); err != nil {
						return err
					}
					continue
				}
				hs := []Handle{e.Irecv(from(0, 1), make([]byte, n))}
				if err := e.Send(to(1, 0, 2), nil, Standard); err != nil { // the receive is posted
					return err
				}
				if _, err := e.Requests().WaitAll(perf.Waitall, hs, nil); err != nil {
					return err
				}
			}
			return nil
		})
		want := protocols.Fragmented
		if slow {
			want = protocols.RendezvousRead
		}
		if chosen, reports, at := es[0].links.peer(1).measured.State(n, cost.Lone, want); chosen != want || reports == 0 {
			t.Errorf("fragments are slow: %v; %d is chosen after %d reports, %d costs %v", slow, chosen, reports, want, at)
		}
		if frags, reads := count.sent[wire.FirstFrag].Load(), count.sent[wire.RTS].Load(); (frags > reads) == slow {
			t.Errorf("fragments are slow: %v; %d messages in fragments, %d by reads", slow, frags, reads)
		}
	}
}

// TestElapsedChecks: an Elapsed that no correct peer sends is rejected. One whose message is not
// known, because another domain has taken over or because the send has ended, is accepted.
func TestElapsedChecks(t *testing.T) {
	es := open(t, 2, variant{fragments: true, measured: true}.wrap, nil)
	e := es[0]
	e.lock()
	defer e.unlock()
	const n = 50_000
	for name, c := range map[string]struct {
		w    [5]uint64
		want bool
	}{
		"fragments":             {[5]uint64{n | cost.Timed, uint64(protocols.Fragmented), 7, n, 9}, true},
		"read that has ended":   {[5]uint64{n | cost.Timed | cost.Lone, uint64(protocols.RendezvousRead), 7, n, 1 << 40}, true},
		"no mark":               {[5]uint64{n, uint64(protocols.Fragmented), 7, n, 9}, false},
		"too long":              {[5]uint64{2*maxBytes | cost.Timed, uint64(protocols.Fragmented), 7, n, 9}, false},
		"not measured protocol": {[5]uint64{n | cost.Timed, uint64(protocols.RendezvousCopy), 7, n, 9}, false},
		"no protocol":           {[5]uint64{n | cost.Timed, 257, 7, n, 9}, false},
		"no time":               {[5]uint64{n | cost.Timed, uint64(protocols.Fragmented), 0, n, 9}, false},
		"negative time":         {[5]uint64{n | cost.Timed, uint64(protocols.Fragmented), 1 << 63, n, 9}, false},
		"no bytes":              {[5]uint64{n | cost.Timed, uint64(protocols.Fragmented), 7, 0, 9}, false},
		"more than the message": {[5]uint64{n | cost.Timed, uint64(protocols.Fragmented), 7, n + 1, 9}, false},
		"negative time in whole": { // not counted
			[5]uint64{n | cost.Timed | cost.Lone, uint64(protocols.Fragmented), 7, n, 1 << 63}, true,
		},
	} {
		if got := e.sends.handleElapsed(1, c.w); got != c.want {
			t.Errorf("%s: accepted %v", name, got)
		}
	}
	p := e.links.peer(1)
	p.measured = new(cost.Peer)
	e.sends.handleElapsed(1, [5]uint64{n | cost.Timed, uint64(protocols.Fragmented), 2 * n, n, 9})
	e.sends.handleElapsed(1, [5]uint64{n | cost.Timed | cost.Lone, uint64(protocols.Fragmented), 2 * n, n, 1 << 63})
	e.sends.handleElapsed(1, [5]uint64{n | cost.Timed | cost.Lone, uint64(protocols.RendezvousRead), 2 * n, n, 1 << 40})
	_, overlapping, each := p.measured.State(n, cost.Timed, protocols.Fragmented)
	_, alone, _ := p.measured.State(n, cost.Timed|cost.Lone, protocols.Fragmented)
	if overlapping != 1 || alone != 0 || each != 2 {
		t.Errorf("%d and %d reports count, and a message costs %v", overlapping, alone, each)
	}
}
