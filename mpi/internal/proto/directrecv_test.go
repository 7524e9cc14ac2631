package proto

import (
	"errors"
	"runtime"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// scripted is a set of engines of which the first receives. The actions of the others are run by
// its polls, so that it is known what arrives while it waits, and in which order.
type scripted struct {
	es     []*Engine
	onPoll func(poll int) // called at each poll of the first engine, counted from 1
	polls  int
	direct int // polls during a direct receive
}

type scriptedDomain struct {
	fabric.Domain
	s *scripted
}

func (d scriptedDomain) Poll(evs []fabric.Event) (int, error) {
	if s := d.s; s.onPoll != nil {
		if s.polls++; s.es[0].poller.in.direct.first != 0 {
			s.direct++
		}
		s.onPoll(s.polls)
	}
	return d.Domain.Poll(evs)
}

func openScripted(t testing.TB, n int, w wrap) *scripted {
	s := new(scripted)
	first := true
	s.es = open(t, n, func(tr fabric.Transport) fabric.Transport {
		if w != nil {
			tr = w(tr)
		}
		return hooked{tr, func(d fabric.Domain) fabric.Domain {
			if first {
				first = false
				return scriptedDomain{d, s}
			}
			return d
		}}
	}, func(c *Config) { c.Oversubscribed = false })
	return s
}

// recv is Recv of the first engine, with onPoll called at each poll.
func (s *scripted) recv(from Route, buf []byte, onPoll func(poll int)) (Status, error) {
	s.onPoll, s.polls, s.direct = onPoll, 0, 0
	defer func() { s.onPoll = nil }()
	return s.es[0].Recv(from, buf)
}

// once returns a function that calls f at the first poll.
func once(f func()) func(int) {
	return func(poll int) {
		if poll == 1 {
			f()
		}
	}
}

// directCase is a waiting receive and the messages that arrive.
type directCase struct {
	name      string
	ps        []testMessage // in the order of sending
	mine      int           // index of the message that is received
	elsewhere bool          // the first one is in another context
	direct    bool
	w         wrap
}

// TestDirect: one receive waits, and messages arrive. It receives the first message that matches.
// Only if no other message arrives before does it need no request.
func TestDirect(t *testing.T) {
	mine := testMessage{from: 2, tag: 7, size: 16, room: 16}
	of := func(change func(*testMessage)) testMessage {
		p := mine
		change(&p)
		return p
	}
	size := func(n int) testMessage { return of(func(p *testMessage) { p.size, p.room = n, n }) }
	for _, m := range []directCase{
		{"whole", []testMessage{mine}, 0, false, true, nil},
		{"eight bytes", []testMessage{size(8)}, 0, false, true, nil},
		{"shorter", []testMessage{of(func(p *testMessage) { p.size = 5 })}, 0, false, true, nil},
		{"eight bytes of more", []testMessage{of(func(p *testMessage) { p.size = 8 })}, 0, false, true, nil},
		{"nothing", []testMessage{size(0)}, 0, false, true, nil},
		{"nothing of more", []testMessage{of(func(p *testMessage) { p.size = 0 })}, 0, false, true, nil},
		{"longer", []testMessage{of(func(p *testMessage) { p.size = 17 })}, 0, false, false, nil},
		{"something for nothing", []testMessage{of(func(p *testMessage) { p.room = 0 })}, 0, false, false, nil},
		{"eight bytes for less", []testMessage{of(func(p *testMessage) { p.size, p.room = 8, 7 })}, 0, false, false, nil},
		{"two", []testMessage{mine, of(func(p *testMessage) { p.number = 1 })}, 0, false, true, nil},
		{"another tag", []testMessage{of(func(p *testMessage) { p.tag = 8 }), mine}, 1, false, false, nil},
		{"another source", []testMessage{of(func(p *testMessage) { p.from = 1 }), mine}, 1, false, false, nil},
		{"another context", []testMessage{of(func(p *testMessage) { p.number = 1 }), mine}, 1, true, false, nil},
		{"synchronous", []testMessage{of(func(p *testMessage) { p.mode = Synchronous })}, 0, false, false, nil},
		{"rendezvous", []testMessage{size(20000)}, 0, false, false, nil},
		{"fragments", []testMessage{size(50000)}, 0, false, false, variant{fragments: true}.wrap},
	} {
		t.Run(m.name, m.run)
	}
}

func (m directCase) run(t *testing.T) {
	s := openScripted(t, 3, m.w)
	var hs []Handle
	m.receive(t, s, m.mine, true, &hs)
	if direct := len(s.es[0].requests.slabs) == 0; direct != m.direct || s.direct != 1 {
		t.Errorf("direct: %v, want %v; %d polls for it, want 1", direct, m.direct, s.direct)
	}
	for i := range m.ps {
		if i != m.mine {
			m.receive(t, s, i, false, &hs)
		}
	}
	for i, h := range hs {
		if _, err := s.es[m.ps[i].from].Requests().Wait(h); err != nil {
			t.Error(err)
		}
	}
}

// receive receives one of the messages. All are sent during the first receive.
func (m directCase) receive(t *testing.T, s *scripted, i int, first bool, hs *[]Handle) {
	t.Helper()
	p := m.ps[i]
	b := guarded(p.room)
	st, err := s.recv(m.route(i, from(p.from, p.tag)), b[:p.room], func(poll int) {
		if first && poll == 1 {
			*hs = m.send(t, s)
		}
		if err := errors.Join(s.es[1].lockedPollOnce(), s.es[2].lockedPollOnce()); err != nil {
			t.Fatal(err)
		}
	})
	if err := p.check(b, st, err); err != nil {
		t.Error(err)
	}
	if s.es[0].poller.in.direct.buf != nil || s.es[0].poller.in.direct.first != 0 {
		t.Error("the receive has ended, but its buffer is still referenced")
	}
}

// route returns the route of message i or of its receive.
func (m directCase) route(i int, r Route) Route {
	if m.elsewhere && i == 0 {
		r.Context++
	}
	return r
}

func (m directCase) send(t *testing.T, s *scripted) (hs []Handle) {
	for i, p := range m.ps {
		b := make([]byte, p.size)
		p.fill(b)
		h, err := s.es[p.from].Isend(m.route(i, to(p.from, 0, p.tag)), b, p.mode)
		if err != nil {
			t.Fatal(err)
		}
		hs = append(hs, h)
	}
	return hs
}

// TestNotDirect: a receive with a wildcard, or behind other posted receives or unexpected messages,
// needs a request.
func TestNotDirect(t *testing.T) {
	send := func(e *Engine, b byte) error { return e.Send(to(1, 0, 7), []byte{b}, Standard) }
	other := Route{Context: testContext + 1, Match: Match{Rank: 1, Tag: 7}}
	for name, c := range map[string]struct {
		from  Route
		begin func(e, other *Engine) error
		want  byte
	}{
		"any source": {from(AnySource, 7), nil, 0},
		"any tag":    {from(1, AnyTag), nil, 0},
		"any":        {from(AnySource, AnyTag), nil, 0},
		"behind a receive": {from(1, 7), func(e, _ *Engine) error {
			e.Irecv(from(1, 7), make([]byte, 1))
			return nil
		}, 1},
		"behind a wildcard receive": {from(1, 7), func(e, _ *Engine) error {
			e.Irecv(from(AnySource, AnyTag), make([]byte, 1))
			return nil
		}, 1},
		"behind several": {from(1, 7), func(e, _ *Engine) error {
			e.Irecv(from(1, 7), make([]byte, 1))
			e.Irecv(from(1, 8), make([]byte, 1))
			return nil
		}, 1},
		"behind a message": {from(1, 7), func(e, other *Engine) error {
			return errors.Join(other.Send(to(1, 0, 8), nil, Standard), e.lockedPollOnce())
		}, 0},
		"with a block to move": {from(1, 7), func(e, o *Engine) error {
			e.Irecv(other, make([]byte, 20000))
			there := to(1, 0, 7)
			there.Context = other.Context
			_, err := o.Isend(there, make([]byte, 20000), Standard)
			e.lock()
			e.poller.progress()
			e.unlock()
			if e.transfers.head == nil {
				err = errors.Join(err, errors.New("no block waits to be moved"))
			}
			return err
		}, 0},
		"with RTR": {from(1, 7), func(e, _ *Engine) error {
			e.Contexts().SetHints(testContext+1, Hints{ExactLength: true, Epoch: 1, EagerLimit: -1, Peers: []int32{0, 1}})
			return nil
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := openScripted(t, 2, nil)
			if c.begin != nil {
				if err := c.begin(s.es[0], s.es[1]); err != nil {
					t.Fatal(err)
				}
			}
			b := make([]byte, 1)
			st, err := s.recv(c.from, b, once(func() {
				if err := errors.Join(send(s.es[1], 0), send(s.es[1], 1)); err != nil {
					t.Fatal(err)
				}
			}))
			if err != nil || b[0] != c.want || st != (Status{Source: 1, Tag: 7, Bytes: 1}) {
				t.Errorf("message %d, want %d; %+v, %v", b[0], c.want, st, err)
			}
			if s.direct != 0 {
				t.Errorf("%d polls for a direct receive", s.direct)
			}
		})
	}
}

// TestDirectEnded: nothing is received in a context that has ended, even if a message arrives.
func TestDirectEnded(t *testing.T) {
	s := openScripted(t, 2, nil)
	s.es[0].Contexts().End(testContext, nil)
	if err := s.es[1].Send(to(1, 0, 7), []byte{1}, Standard); err != nil {
		t.Fatal(err)
	}
	if st, err := s.recv(from(1, 7), make([]byte, 1), func(int) {}); !errors.Is(err, ErrContextEnded) || s.polls != 0 {
		t.Errorf("%+v, %v, %d polls", st, err, s.polls)
	}
}

// TestDirectFailed: a direct receive ends as soon as the engine fails.
func TestDirectFailed(t *testing.T) {
	reason := errors.New("the reason")
	for name, c := range map[string]struct {
		end  func(s *scripted)
		want error
	}{
		"abort": {func(s *scripted) {
			go s.es[0].Processes().Abort(reason)
			for !s.es[0].mu.Contended() {
				runtime.Gosched()
			}
		}, reason},
		"end of a peer": {func(s *scripted) {
			if err := s.es[1].Close(); err != nil {
				t.Error(err)
			}
		}, fabric.ErrPeerDown},
	} {
		t.Run(name, func(t *testing.T) {
			s := openScripted(t, 2, nil)
			_, err := s.recv(from(1, 7), make([]byte, 1), once(func() { c.end(s) }))
			if !errors.Is(err, ErrFailed) || !errors.Is(err, c.want) {
				t.Error(err)
			}
			if s.direct != 1 || s.es[0].poller.in.direct.buf != nil {
				t.Errorf("%d polls for the receive, buffer still referenced: %v", s.direct, s.es[0].poller.in.direct.buf != nil)
			}
		})
	}
}

// TestDirectReleasesLock: a goroutine that waits for the lock gets it, and its receive is matched
// after the direct one.
func TestDirectReleasesLock(t *testing.T) {
	s := openScripted(t, 2, nil)
	e, other := s.es[0], s.es[1]
	second := make(chan Handle, 1)
	b := make([]byte, 2)
	_, err := s.recv(from(1, 7), b[:1], once(func() {
		go func() {
			second <- e.Irecv(from(1, 7), b[1:])
			for i := range b {
				if err := other.Send(to(1, 0, 7), []byte{byte(i + 1)}, Standard); err != nil {
					t.Error(err)
				}
			}
		}()
		for !e.mu.Contended() {
			runtime.Gosched()
		}
	}))
	_, wait := e.Requests().Wait(<-second)
	if err := errors.Join(err, wait); err != nil || b[0] != 1 || b[1] != 2 {
		t.Errorf("received %v, %v", b, err)
	}
	if s.direct != 1 {
		t.Errorf("%d polls after another goroutine waited for the lock", s.direct-1)
	}
}

// TestDirectOrder: of two goroutines with the same receive, the one that began first gets the first
// message.
func TestDirectOrder(t *testing.T) {
	es := open(t, 2, nil, func(c *Config) { c.Oversubscribed = false })
	b := make([]byte, 2)
	ended := make(chan error)
	for i := range b {
		go func() {
			_, err := es[0].Recv(from(1, 7), b[i:i+1])
			ended <- err
		}()
		for n := -1; n != i+1; runtime.Gosched() {
			n, _ = es[0].Contexts().QueueLengths(testContext)
		}
	}
	for i := range b {
		if err := es[1].Send(to(1, 0, 7), []byte{byte(i + 1)}, Standard); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(<-ended, <-ended); err != nil || b[0] != 1 || b[1] != 2 {
		t.Errorf("received %v, %v", b, err)
	}
}

// TestDirectNoEnvelope: an envelope of zeros is not a message, whatever was received before.
func TestDirectNoEnvelope(t *testing.T) {
	tr := mem.NewHub(2).Transport()
	e := openOne(t, tr, 0, 2, func(c *Config) { c.Oversubscribed = false })
	_, ep := bareProcess(t, tr)
	head, n := wire.Header(wire.Envelope{Kind: wire.Eager})
	if err := ep.Send(head[:n], nil); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Recv(Route{}, nil); err != nil || len(e.requests.slabs) != 0 {
		t.Fatalf("%v; %d requests", err, len(e.requests.slabs))
	}
	if err := ep.Send(make([]byte, wire.EnvelopeBytes), nil); err != nil {
		t.Fatal(err)
	}
	if err := e.lockedPollOnce(); !errors.Is(err, fabric.ErrCorrupt) {
		t.Error(err)
	}
}

// TestDirectAllocs: a direct receive allocates nothing.
func TestDirectAllocs(t *testing.T) {
	s := openScripted(t, 2, nil)
	there, here, b := to(1, 0, 7), from(1, 7), make([]byte, 8)
	var err error
	onPoll := once(func() { err = s.es[1].Send(there, b, Standard) })
	if n := alloctest.Count(1000, func() {
		if err == nil {
			_, err = s.recv(here, b, onPoll)
		}
	}); n != 0 || err != nil || len(s.es[0].requests.slabs) != 0 {
		t.Errorf("%v allocations, %v, %d requests", n, err, len(s.es[0].requests.slabs))
	}
}
