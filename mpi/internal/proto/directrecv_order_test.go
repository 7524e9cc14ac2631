package proto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/pollyield"
	"github.com/ibrun/ibrun/perf"
)

// reference is a simple implementation of matching, for receives without the wildcard source.
type reference struct {
	sent   []sentMessage
	posted []*postedReceive
}

type sentMessage struct {
	from    Route
	number  uint32
	bytes   int
	matched bool
}

type postedReceive struct {
	from  Route
	buf   []byte
	h     Handle
	found int // in sent, or -1
}

func (r *postedReceive) fits(m *sentMessage) bool {
	return !m.matched && r.from.Context == m.from.Context && r.from.Rank == m.from.Rank &&
		(r.from.Tag == AnyTag || r.from.Tag == m.from.Tag)
}

func (p *reference) send(m sentMessage) {
	p.sent = append(p.sent, m)
	for _, r := range p.posted {
		if r.found < 0 && r.fits(&m) {
			r.found, p.sent[len(p.sent)-1].matched = len(p.sent)-1, true
			return
		}
	}
}

func (p *reference) receive(r *postedReceive) {
	r.found = slices.IndexFunc(p.sent, func(m sentMessage) bool { return r.fits(&m) })
	if r.found >= 0 {
		p.sent[r.found].matched = true
	}
}

func (p *reference) check(t *testing.T, r *postedReceive, st Status, err error) {
	t.Helper()
	m := &p.sent[r.found]
	n := min(m.bytes, len(r.buf))
	if st.Source != m.from.Rank || st.Tag != m.from.Tag || st.Bytes != n || errors.Is(err, ErrTruncate) != (m.bytes > len(r.buf)) ||
		err != nil && !errors.Is(err, ErrTruncate) {
		t.Fatalf("message %d of %d bytes into %d: %+v, %v", m.number, m.bytes, len(r.buf), st, err)
	}
	if n >= 4 && binary.LittleEndian.Uint32(r.buf) != m.number {
		t.Fatalf("message %d instead of %d", binary.LittleEndian.Uint32(r.buf), m.number)
	}
}

// exchangePair is two engines and the reference for what the second receives.
type exchangePair struct {
	t     *testing.T
	es    []*Engine
	model reference
	sends [2][]Handle
}

func (p *exchangePair) send(from Route, size int, mode Mode) {
	p.t.Helper()
	number := uint32(len(p.model.sent))
	b := make([]byte, size)
	if size >= 4 {
		binary.LittleEndian.PutUint32(b, number)
	}
	to := from
	to.Peer = 1
	h, err := p.es[from.Rank].Isend(to, b, mode)
	if err != nil {
		p.t.Fatal(err)
	}
	p.sends[from.Rank] = append(p.sends[from.Rank], h)
	p.model.send(sentMessage{from: from, number: number, bytes: size})
}

// receive blocks if now is set and the reference has a message; otherwise it starts a receive.
func (p *exchangePair) receive(from Route, size int, now bool) {
	p.t.Helper()
	r := &postedReceive{from: from, buf: make([]byte, size)}
	if p.model.receive(r); now && r.found >= 0 {
		st, err := p.es[1].Recv(from, r.buf)
		p.model.check(p.t, r, st, err)
		return
	}
	r.h = p.es[1].Irecv(from, r.buf)
	p.model.posted = append(p.model.posted, r)
}

// finish completes all receives and sends.
func (p *exchangePair) finish() {
	p.t.Helper()
	for i := range p.model.sent {
		if m := p.model.sent[i]; !m.matched {
			p.receive(m.from, m.bytes, true)
		}
	}
	for _, r := range p.model.posted {
		if r.found < 0 {
			p.send(Route{Context: r.from.Context, Match: Match{Rank: r.from.Rank, Tag: max(r.from.Tag, 0)}}, 8, Standard)
		}
	}
	for _, r := range p.model.posted {
		st, err := p.es[1].Requests().Wait(r.h)
		p.model.check(p.t, r, st, err)
	}
	for i, hs := range p.sends {
		if _, err := p.es[i].Requests().WaitAll(perf.Waitall, hs, nil); err != nil {
			p.t.Fatal(err)
		}
	}
}

// TestDirectMatching: blocking receives get the right messages, whether or not other messages
// arrive before.
func TestDirectMatching(t *testing.T) {
	es := open(t, 2, nil, func(c *Config) { c.Oversubscribed = false })
	sizes := []int{0, 4, 8, 8, 8, 9, 100, 5000, 70000}
	modes := []Mode{Standard, Standard, Standard, Synchronous}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		p := &exchangePair{t: t, es: es}
		for range 2 + r.IntN(12) {
			route := from(r.IntN(2), int32(r.IntN(2)))
			route.Context += uint32(r.IntN(2))
			size := sizes[r.IntN(len(sizes))]
			if r.IntN(3) != 0 {
				p.send(route, size, modes[r.IntN(len(modes))])
				continue
			}
			if r.IntN(4) == 0 {
				route.Tag = AnyTag
			}
			p.receive(route, size, r.IntN(4) != 0)
		}
		p.finish()
	}
	if rs, ms := es[1].Contexts().QueueLengths(testContext); rs+ms != 0 {
		t.Errorf("%d receives and %d messages are left", rs, ms)
	}
}

// TestDirectYield: a receive that yields before it starts is not confused by receives of other
// goroutines meanwhile.
func TestDirectYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the other goroutine runs when this one yields, and not before
	es := open(t, 2, nil, func(c *Config) { c.Oversubscribed = false })
	for _, tag := range []int32{9, 2, 1} {
		if err := es[0].Send(to(0, 1, tag), []byte{byte(tag)}, Standard); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(tag int32) error {
		buf := make([]byte, 1)
		if st, err := es[1].Recv(from(0, tag), buf); err != nil || buf[0] != byte(tag) || st.Tag != tag {
			return fmt.Errorf("receive of tag %d: %d, %+v, %w", tag, buf[0], st, err)
		}
		return nil
	}
	other := make(chan error, 1)
	es[1].waiters.yieldTimer = pollyield.Timer{}
	if es[1].waiters.yieldTimer.Poll(); !es[1].waiters.yieldTimer.Due() {
		t.Fatal("no yield is due")
	}
	go func() { other <- receive(2) }() // gets a request, since the message with tag 9 arrives first
	if err := errors.Join(receive(1), <-other, receive(9)); err != nil {
		t.Error(err)
	}
}
