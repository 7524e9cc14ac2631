package proto

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// setExactLength sets the hint ExactLength for the test's context at all engines.
func setExactLength(es []*Engine, epoch uint32) {
	for _, e := range es {
		h := Hints{ExactLength: epoch != 0, Epoch: epoch, EagerLimit: -1}
		for i := range es {
			h.Peers = append(h.Peers, int32(i))
		}
		e.Contexts().SetHints(testContext, h)
	}
}

// sentCounter counts the messages that a transport sends, by kind.
type sentCounter struct {
	fabric.Transport
	mu    sync.Mutex
	count [wire.KindCount]int
}

func (s *sentCounter) wrap(tr fabric.Transport) fabric.Transport {
	s.Transport = tr
	return hooked{tr, func(d fabric.Domain) fabric.Domain { return sentDomain{d, s} }}
}

func (s *sentCounter) sent(k wire.Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[k]
}

type hooked struct {
	fabric.Transport
	hook func(fabric.Domain) fabric.Domain
}

func (h hooked) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	d, err := h.Transport.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return h.hook(d), nil
}

type sentDomain struct {
	fabric.Domain
	counter *sentCounter
}

func (d sentDomain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	ep, err := d.Domain.Connect(peer, addr)
	return sentEndpoint{ep, d.counter}, err
}

type sentEndpoint struct {
	fabric.Endpoint
	counter *sentCounter
}

func (ep sentEndpoint) Send(header, payload []byte) error {
	err := ep.Endpoint.Send(header, payload)
	if err == nil {
		ep.counter.mu.Lock()
		ep.counter.count[header[0]]++
		ep.counter.mu.Unlock()
	}
	return err
}

// exactMessage is one message of a plan, and the length of its receive buffer.
type exactMessage struct {
	tag        int32
	size, room int
}

// pattern is the source of the payloads; each message takes a different part.
var pattern = func() []byte {
	b := make([]byte, 1<<17)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

func (p exactMessage) payload(i int) []byte { return pattern[i*37%1000:][:p.size] }

func (p exactMessage) check(i int, st Status, err error, buf []byte) error {
	got := min(p.size, p.room)
	switch {
	case (err != nil) != (p.size != p.room) || err != nil && !errors.Is(err, ErrTruncate):
		return fmt.Errorf("message %d %+v: %w", i, p, err)
	case st.Bytes != got || st.Tag != p.tag:
		return fmt.Errorf("message %d %+v: status %+v", i, p, st)
	case !bytes.Equal(buf[:got], p.payload(i)[:got]):
		return fmt.Errorf("message %d %+v: wrong bytes", i, p)
	case slices.ContainsFunc(buf[p.room:], func(x byte) bool { return x != guard }):
		return fmt.Errorf("message %d %+v: bytes after the buffer were written", i, p)
	}
	return nil
}

// plan returns messages with few tags. If lies is set some receives have the wrong length.
func plan(c *rand.Rand, n int, lies bool) []exactMessage {
	sizes := []int{0, 8, 1000, 9000, 30000, 70000, 100000}
	ps := make([]exactMessage, n)
	for i := range ps {
		size := sizes[c.IntN(len(sizes))]
		ps[i] = exactMessage{int32(c.IntN(3)), size, size}
		if lies && c.IntN(8) == 0 {
			ps[i].room = sizes[c.IntN(len(sizes))]
		}
	}
	return ps
}

// exchangeExact sends the messages of one plan and receives those of another, several at a time.
func exchangeExact(e *Engine, self int, out, in []exactMessage, c *rand.Rand) error {
	peer := 1 - self
	type posted struct {
		h   Handle
		buf []byte
		i   int
	}
	var sends []Handle
	var recvs []posted
	for s, r := 0, 0; s < len(out) || r < len(in); {
		for n := c.IntN(6); n > 0 && r < len(in); n-- {
			buf := guarded(in[r].room)
			recvs = append(recvs, posted{e.Irecv(from(peer, in[r].tag), buf[:in[r].room]), buf, r})
			r++
		}
		for n := c.IntN(6); n > 0 && s < len(out); n-- {
			h, err := e.Isend(to(self, peer, out[s].tag), out[s].payload(s), Mode(c.IntN(2)))
			if err != nil {
				return err
			}
			sends = append(sends, h)
			s++
		}
		for n := c.IntN(len(recvs)/2 + 1); n > 0 && r >= s; n-- { // the message that is received first has been sent
			x := recvs[0]
			if x.i >= s {
				break
			}
			st, err := e.Requests().Wait(x.h)
			if err := in[x.i].check(x.i, st, err, x.buf); err != nil {
				return err
			}
			recvs = recvs[1:]
		}
		runtime.Gosched()
	}
	for _, x := range recvs {
		st, err := e.Requests().Wait(x.h)
		if err := in[x.i].check(x.i, st, err, x.buf); err != nil {
			return err
		}
	}
	_, err := e.Requests().WaitAll(perf.Waitall, sends, nil)
	return err
}

// TestRTRTraffic: each receive gets its own message or an error, whether RTRs are used, late,
// refused, or violate the hint.
func TestRTRTraffic(t *testing.T) {
	rtrs := 0
	for name, tw := range map[string]variant{
		"write": {}, "shared": {pairing: true}, "copied": {noRead: true}, "refused": {refuse: true},
		"shared, refused": {pairing: true, refuse: true}, "fragments": {fragments: true}, "scarce": {scarce: true},
		"measured": {fragments: true, measured: true, pairing: true},
	} {
		for _, lies := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", lies ", lies), func(t *testing.T) {
				seed := soaktest.Seed(t)
				var s sentCounter
				es := open(t, 2, func(tr fabric.Transport) fabric.Transport { return s.under(tw, tr) }, nil)
				for round := range 2 {
					setExactLength(es, uint32(round+1))
					c := rand.New(rand.NewPCG(seed, uint64(round)))
					plans := [2][]exactMessage{plan(c, 60, lies), plan(c, 60, lies)}
					each(t, es, func(self int, e *Engine) error {
						c := rand.New(rand.NewPCG(seed, uint64(round*2+self)))
						return exchangeExact(e, self, plans[self], plans[1-self], c)
					})
				}
				rtrs += s.sent(wire.RTR)
			})
		}
	}
	if rtrs == 0 {
		t.Error("no receive sent an RTR")
	}
}

// under puts the counter between a variant and the transport below it.
func (s *sentCounter) under(tw variant, tr fabric.Transport) fabric.Transport {
	return tw.wrap(s.wrap(tr))
}

// TestRTRUsed: a message whose receive is posted early enough is written into its buffer, without
// an RTS.
func TestRTRUsed(t *testing.T) {
	const n = 100000
	for name, tw := range map[string]variant{"write": {}, "shared": {pairing: true}, "copied": {noRead: true}} {
		t.Run(name, func(t *testing.T) {
			var s sentCounter
			es := open(t, 2, func(tr fabric.Transport) fabric.Transport { return s.under(tw, tr) }, nil)
			setExactLength(es, 1)
			each(t, es, func(self int, e *Engine) error {
				if self == 0 {
					if err := e.Send(to(0, 1, 0), []byte{1}, Standard); err != nil {
						return err
					}
					if _, err := e.Recv(from(1, 0), make([]byte, 1)); err != nil {
						return err
					}
					for i := range 3 {
						if err := e.Send(to(0, 1, 5), exactMessage{5, n, n}.payload(i), Standard); err != nil {
							return err
						}
					}
					return nil
				}
				if _, err := e.Recv(from(0, 0), make([]byte, 1)); err != nil {
					return err
				}
				var bufs [3][]byte
				var hs [3]Handle
				for i := range hs {
					bufs[i] = guarded(n)
					hs[i] = e.Irecv(from(0, 5), bufs[i][:n])
				}
				if err := e.Send(to(1, 0, 0), []byte{1}, Standard); err != nil {
					return err
				}
				for i, h := range hs {
					st, err := e.Requests().Wait(h)
					if err := (exactMessage{5, n, n}).check(i, st, err, bufs[i]); err != nil {
						return err
					}
				}
				return nil
			})
			if s.sent(wire.RTR) != 3 || s.sent(wire.Put) != 3 || s.sent(wire.RTS) != 0 {
				t.Errorf("%d RTR, %d Put, %d RTS; want 3, 3, 0", s.sent(wire.RTR), s.sent(wire.Put), s.sent(wire.RTS))
			}
		})
	}
}

// TestRTRRevoked: the buffer of a cancelled receive, or of one whose context has ended, is not
// written any more.
func TestRTRRevoked(t *testing.T) {
	const n = 100000
	ended := errors.New("the context has ended")
	es := open(t, 2, nil, nil)
	setExactLength(es, 1)
	each(t, es, func(self int, e *Engine) error {
		if self == 0 {
			if err := e.Send(to(0, 1, 0), []byte{1}, Standard); err != nil {
				return err
			}
			if _, err := e.Recv(from(1, 7), make([]byte, 1)); err != nil { // by now the first receive has been cancelled
				return err
			}
			if err := e.Send(to(0, 1, 5), exactMessage{5, n, n}.payload(9), Standard); err != nil {
				return err
			}
			_, err := e.Recv(Route{Context: testContext + 2, Match: Match{Rank: 1, Tag: 1}}, make([]byte, 1))
			return err
		}
		if _, err := e.Recv(from(0, 0), make([]byte, 1)); err != nil {
			return err
		}
		first, second, third := guarded(n), guarded(n), guarded(n)
		h1, h2 := e.Irecv(from(0, 5), first[:n]), e.Irecv(from(0, 5), second[:n])
		if err := e.Requests().Cancel(h1); err != nil {
			return err
		}
		if st, err := e.Requests().Wait(h1); err != nil || !st.Cancelled {
			return fmt.Errorf("cancelled: %+v, %w", st, err)
		}
		if err := e.Send(to(1, 0, 7), []byte{1}, Standard); err != nil {
			return err
		}
		st, err := e.Requests().Wait(h2)
		if err := (exactMessage{5, n, n}).check(9, st, err, second); err != nil {
			return err
		}
		if slices.ContainsFunc(first, func(x byte) bool { return x != guard }) {
			return errors.New("the buffer of the cancelled receive was written")
		}
		h3 := e.Irecv(from(0, 6), third[:n])
		e.Contexts().End(testContext, ended)
		if _, err := e.Requests().Wait(h3); !errors.Is(err, ended) {
			return fmt.Errorf("a receive of a context that has ended: %w", err)
		}
		return e.Send(Route{Context: testContext + 2, Peer: 0, Match: Match{Rank: 1, Tag: 1}}, []byte{1}, Standard)
	})
}

// TestRTRRestarted: a persistent receive is started again before the RTRCancelAck of its last use
// has arrived. That message does not complete the next use, for which the sender has begun to
// write.
func TestRTRRestarted(t *testing.T) {
	const n = 100000
	es := open(t, 2, nil, nil)
	setExactLength(es, 1)
	a, b := es[0], es[1]
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(a.Send(to(0, 1, 0), []byte{1}, Standard))
	_, err := b.Recv(from(0, 0), make([]byte, 1))
	must(err)
	send := func(i int) {
		t.Helper()
		_, err := a.Isend(to(0, 1, 5), exactMessage{5, n, n}.payload(i), Standard)
		must(err)
	}
	buf := guarded(n)
	h := b.RecvInit(from(0, 5), oneBlock(buf[:n]))
	finish := func(i int) {
		t.Helper()
		st, err := b.Requests().Wait(h)
		must((exactMessage{5, n, n}).check(i, st, err, buf))
	}
	must(b.Start(h))
	send(1) // before the RTR is received: sends RTS
	must(b.Requests().Cancel(h))
	finish(1)
	must(a.lockedPollOnce()) // acknowledges
	must(b.Start(h))
	must(a.lockedPollOnce()) // receives the RTR
	send(2)                  // and uses it
	must(a.lockedPollOnce())
	must(b.Requests().Cancel(h))
	finish(2)
	must(a.lockedPollOnce())
	must(b.lockedPollOnce())
	must(b.Start(h))
	must(b.Requests().Cancel(h))
	must(a.lockedPollOnce())
	if st, err := b.Requests().Wait(h); err != nil || !st.Cancelled {
		t.Errorf("cancelled: %+v, %v", st, err)
	}
}

// TestRTRFinalized: a process begins to write into a buffer whose RTR is being revoked, and
// finalizes before it has finished. The receive completes.
func TestRTRFinalized(t *testing.T) {
	const n = 100000
	es := open(t, 2, variant{pairing: true}.wrap, nil)
	setExactLength(es, 1)
	a, b := es[0], es[1]
	if err := a.Send(to(0, 1, 0), []byte{1}, Standard); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Recv(from(0, 0), make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	h := b.Irecv(from(0, 5), make([]byte, n))
	if err := a.lockedPollOnce(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Isend(to(0, 1, 5), make([]byte, n), Standard); err != nil {
		t.Fatal(err)
	}
	b.Processes().AllowFinalize()
	if err := errors.Join(b.Requests().Cancel(h), a.Close()); err != nil {
		t.Fatal(err)
	}
	if st, err := b.Requests().Wait(h); err == nil && !st.Cancelled {
		t.Errorf("%+v", st)
	}
	if err := b.lockedPollOnce(); err != nil {
		t.Error(err)
	}
}

// TestOvertaking: an RTS does not wait behind small messages for which there is no room, and all
// messages arrive.
func TestOvertaking(t *testing.T) {
	for _, on := range []bool{false, true} {
		es := open(t, 2, nil, nil)
		e := es[0]
		e.Contexts().SetHints(testContext, Hints{AllowOvertaking: on, EagerLimit: -1})
		var hs []Handle
		small, large := make([]byte, 1000), make([]byte, 100000)
		for len(e.links.blocked) == 0 || len(hs) < 3 {
			h, err := e.Isend(to(0, 1, 1), small, Standard)
			if err != nil {
				t.Fatal(err)
			}
			hs = append(hs, h)
		}
		before := len(hs)
		for range 2 {
			h, err := e.Isend(to(0, 1, 2), large, Standard)
			if err != nil {
				t.Fatal(err)
			}
			hs = append(hs, h)
		}
		p := e.links.peer(1)
		if first := p.head.kind() == wire.RTS; first != on {
			t.Errorf("overtaking %v: the RTS is first: %v", on, first)
		}
		if on && (p.head != &hs[before].r.out || p.head.next != &hs[before+1].r.out) {
			t.Error("an RTS has overtaken another")
		}
		each(t, es, func(self int, e *Engine) error {
			if self == 0 {
				_, err := e.Requests().WaitAll(perf.Waitall, hs, nil)
				return err
			}
			for range 2 {
				if _, err := e.Recv(from(0, 2), make([]byte, len(large))); err != nil {
					return err
				}
			}
			for range before {
				if _, err := e.Recv(from(0, 1), make([]byte, len(small))); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// TestEagerHint: the eager limit is that of the context, as far as the transport supports it.
func TestEagerHint(t *testing.T) {
	var s sentCounter
	es := open(t, 2, func(tr fabric.Transport) fabric.Transport { return s.under(variant{fragments: true}, tr) }, nil)
	for _, c := range []struct {
		eager, size int
		kind        wire.Kind
	}{
		{-1, 1500, wire.Eager}, {-1, 1501, wire.FirstFrag}, {4000, 4000, wire.Eager}, {100, 100, wire.Eager}, {100, 101, wire.RTS},
		{0, 1, wire.RTS}, {1 << 40, 1 << 20, wire.RTS},
	} {
		before := s.sent(c.kind)
		es[0].Contexts().SetHints(testContext, Hints{EagerLimit: c.eager})
		each(t, es, func(self int, e *Engine) error {
			if self == 0 {
				return e.Send(to(0, 1, 1), make([]byte, c.size), Standard)
			}
			_, err := e.Recv(from(0, 1), make([]byte, c.size))
			return err
		})
		if s.sent(c.kind) == before {
			t.Errorf("%d bytes with a limit of %d: not sent as kind %d", c.size, c.eager, c.kind)
		}
	}
}
