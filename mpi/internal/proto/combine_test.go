package proto

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/ticks"
)

// deferringDomain keeps the messages of SendLater until the next Poll, Send or Flush, but for delay
// at most.
type deferringDomain struct {
	fabric.Domain
	eps   []*deferringEndpoint
	delay time.Duration
}

func deferring(tr fabric.Transport) fabric.Transport {
	return hooked{tr, func(d fabric.Domain) fabric.Domain { return &deferringDomain{Domain: d, delay: time.Millisecond} }}
}

func (d *deferringDomain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	ep, err := d.Domain.Connect(peer, addr)
	if err != nil {
		return nil, err
	}
	x := &deferringEndpoint{Endpoint: ep, delay: d.delay}
	d.eps = append(d.eps, x)
	return x, nil
}

func (d *deferringDomain) Poll(evs []fabric.Event) (int, error) {
	for _, x := range d.eps {
		x.Flush()
	}
	return d.Domain.Poll(evs)
}

type deferringEndpoint struct {
	fabric.Endpoint
	mu   sync.Mutex
	kept [][]byte
	most int // messages kept at the same time

	send  *time.Timer // calls Flush; active while messages are kept
	delay time.Duration
}

func (x *deferringEndpoint) Send(header, payload []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.flush(); err != nil {
		return err
	}
	return x.Endpoint.Send(header, payload)
}

func (x *deferringEndpoint) SendLater(header, payload []byte) (kept bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.kept) == 50 {
		return false, fabric.ErrAgain
	}
	if len(x.kept) == 0 {
		x.flushLater()
	}
	x.kept = append(x.kept, append(append([]byte(nil), header...), payload...))
	x.most = max(x.most, len(x.kept))
	return true, nil
}

func (x *deferringEndpoint) flushLater() {
	if x.send == nil {
		x.send = time.AfterFunc(x.delay, x.Flush)
	} else {
		x.send.Reset(x.delay)
	}
}

func (x *deferringEndpoint) Flush() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if errors.Is(x.flush(), fabric.ErrAgain) {
		x.flushLater()
	}
}

// flush sends the messages that are kept. It returns the error of the first that cannot be sent,
// which remains.
func (x *deferringEndpoint) flush() error {
	for len(x.kept) != 0 {
		if err := x.Endpoint.Send(x.kept[0], nil); err != nil {
			return err
		}
		x.kept = x.kept[1:]
	}
	return nil
}

// TestWokenSendTogether: what goroutines send that were woken together is kept, and sent by the
// last of them.
func TestWokenSendTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const attempts = 20 // if this program is stopped between two sends, they are not kept together
	for range attempts {
		if mostSentTogether(t) >= 2 {
			return
		}
	}
	t.Error("no messages were kept together")
}

// mostSentTogether returns how many of the messages that goroutines send after they were woken
// together were kept at one time.
func mostSentTogether(t *testing.T) int {
	t.Helper()
	const goroutines = 20
	es := open(t, 2, deferring, nil)
	e, other := es[0], es[1]
	var all sync.WaitGroup
	for tag := range int32(goroutines) {
		all.Go(func() {
			buf := make([]byte, 8)
			if _, err := e.Recv(from(1, tag), buf); err != nil {
				t.Error(err)
			}
			if err := e.Send(to(0, 1, tag), buf, Standard); err != nil {
				t.Error(err)
			}
		})
	}
	awaitSleepers(e, goroutines)
	for tag := range int32(goroutines) {
		if err := other.Send(to(1, 0, tag), make([]byte, 8), Standard); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	for tag := range int32(goroutines) {
		if _, err := other.Recv(from(0, tag), make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
	}
	checkIdle(t, es)
	return e.links.domain.(*deferringDomain).eps[0].most
}

// partlyDeferring is a deferringDomain of several parts: Poll does not poll that of peer 1, and
// that of peer 2 defers nothing.
type partlyDeferring struct{ *deferringDomain }

func (d partlyDeferring) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	if peer != 1 {
		return d.Domain.Connect(peer, addr)
	}
	return d.deferringDomain.Connect(peer, addr)
}

func (d partlyDeferring) Poll(evs []fabric.Event) (int, error) { return d.Domain.Poll(evs) }

// TestKeptMessagesLeave: messages that are kept are sent when the engine polls, also if its domain
// does not poll that part then, and with the next message of the last goroutine, also one to a peer
// of another part.
func TestKeptMessagesLeave(t *testing.T) {
	for name, next := range map[string]func(e *Engine) error{
		"poll": (*Engine).Poll,
		"send": func(e *Engine) error { return e.Send(to(0, 2, 0), nil, Standard) },
	} {
		es := open(t, 3, func(tr fabric.Transport) fabric.Transport {
			return hooked{tr, func(d fabric.Domain) fabric.Domain {
				return partlyDeferring{&deferringDomain{Domain: d, delay: time.Hour}}
			}}
		}, nil)
		e := es[0]
		for i, peer := range []int{1, 2, 1} {
			e.waiters.woken = i / 2 // only the last of these is kept: those before connect
			if err := e.Send(to(0, peer, 0), nil, Standard); err != nil {
				t.Fatal(err)
			}
		}
		ep := e.links.domain.(partlyDeferring).eps[0]
		if len(ep.kept) != 1 {
			t.Fatalf("%d messages are kept, want 1", len(ep.kept))
		}
		e.waiters.woken = 0
		if err := next(e); err != nil || len(ep.kept) != 0 || len(e.links.combining.peers) != 0 {
			t.Errorf("after a %s %d messages are kept, to %d peers: %v", name, len(ep.kept), len(e.links.combining.peers), err)
		}
	}
}

// TestLongWokenLeaves: a long message of goroutines that were woken together is not kept, and what
// is kept leaves with it.
func TestLongWokenLeaves(t *testing.T) {
	es, ep := rowEngines(t)
	ep.delay = time.Hour
	e := es[0]
	e.links.combining.longest = 100
	e.waiters.woken = 1
	for i, n := range []int{100, 100, 101, 0} {
		e.links.combining.pause = 0 // this process may have been stopped in between
		if err := e.Send(to(0, 1, 0), make([]byte, n), Standard); err != nil {
			t.Fatal(err)
		}
		if want := []int{1, 2, 0, 1}[i]; len(ep.kept) != want {
			t.Errorf("after a message of %d bytes %d are kept, want %d", n, len(ep.kept), want)
		}
	}
	e.waiters.woken = 0
}

// TestCombiningPauses: after a delay messages are not kept for a while, which is longer after the
// next delay, up to a limit.
func TestCombiningPauses(t *testing.T) {
	var c combining
	last := 0
	for range 30 {
		c.adapt(true)
		if c.pause < firstPause || c.pause > maxPause || c.pause != min(max(2*last, firstPause), maxPause) {
			t.Fatalf("a pause of %d messages after one of %d", c.pause, last)
		}
		last = c.pause
	}
	c.pause = 0
	if c.adapt(false); c.pause != 0 || c.next >= maxPause {
		t.Errorf("a pause of %d messages, then %d, without a delay", c.pause, c.next)
	}
	for range maxPause {
		c.adapt(false)
	}
	if c.next != firstPause {
		t.Errorf("the pause after a delay is %d messages long, want %d", c.next, firstPause)
	}
}

// TestDelayedRow: if the messages of a row leave long after the last one, the next ones are not
// kept. A counter that goes backward is not a delay.
func TestDelayedRow(t *testing.T) {
	es, _ := rowEngines(t)
	e, c := es[0], &es[0].links.combining
	for _, delayed := range []bool{false, true} {
		sendRow(t, e, 10)
		if len(c.peers) != 1 {
			t.Fatalf("messages are kept to %d peers, want 1", len(c.peers))
		}
		c.last = ticks.Now() + 1<<62 // however long this process is stopped before the poll
		if delayed {
			c.last = ticks.Now() - 2*rowDelayTicks
		}
		if err := e.Poll(); err != nil || (c.pause == firstPause) != delayed {
			t.Errorf("delayed %v: a pause of %d messages, %v", delayed, c.pause, err)
		}
	}
	if sendRow(t, e, 10); len(c.peers) != 0 {
		t.Error("messages are kept after a delay")
	}
}

// TestInRow: messages in a row are kept from the fourth one on, and leave in groups. A poll, a
// pause or another peer ends a row, and so does a counter that goes backward.
func TestInRow(t *testing.T) {
	c := combining{limit: rowTicks}
	now, polls, to := uint64(1<<40), uint(7), new(peer)
	send := func(after uint64) (kept bool) {
		now += after
		kept = c.inRow(to, polls, now)
		c.last = now
		return kept
	}
	// row sends n messages, after ticks each, and returns the numbers of those that are not kept.
	row := func(n int, after uint64) (direct []int) {
		for i := range n {
			if !send(after) {
				direct = append(direct, i)
			}
		}
		return direct
	}
	const last = rowLength + maxTogether - 1 // of the first group
	for _, x := range []struct {
		name  string
		after uint64
		n     int
		want  []int
	}{
		{"a long row", 10, rowLength + 2*maxTogether + 1, []int{0, 1, 2, last, last + maxTogether}},
		{"a slow row: some are kept, but not for long", rowTicks / 2, 10, []int{0, 1, 2, 6}},
		{"no row", rowTicks + 1, 5, []int{0, 1, 2, 3, 4}},
	} {
		polls++ // ends the row
		if got := row(x.n, x.after); !slices.Equal(got, x.want) {
			t.Errorf("%s: messages %d are not kept, want %d", x.name, got, x.want)
		}
	}
	for name, end := range map[string]func(){
		"a poll":                         func() { polls++ },
		"another peer":                   func() { to = new(peer) },
		"a counter that is a little off": func() { now -= 5 },
	} {
		row(10, 1)
		if end(); send(1) {
			t.Errorf("the first message after %s is kept", name)
		}
	}
}

// sendRow sends so many messages to process 1.
func sendRow(t *testing.T, e *Engine, count int) {
	t.Helper()
	for k := range count {
		if err := e.Send(to(0, 1, 0), []byte{byte(k)}, Standard); err != nil {
			t.Fatal(err)
		}
	}
}

// rowEngines returns two engines that are connected. The messages of the first one make a row
// however slowly it sends.
func rowEngines(t *testing.T) (es []*Engine, ep *deferringEndpoint) {
	t.Helper()
	es = open(t, 2, deferring, nil)
	sendRow(t, es[0], 1)
	es[0].links.combining.limit = math.MaxUint64
	return es, es[0].links.domain.(*deferringDomain).eps[0]
}

// TestRowLeavesTogether: messages in a row are sent together, and arrive in their order. None is
// kept after a poll.
func TestRowLeavesTogether(t *testing.T) {
	const attempts, count = 100, rowLength + maxTogether + 10
	es, ep := rowEngines(t)
	b := []byte{0}
	if _, err := es[1].Recv(from(0, 0), b); err != nil {
		t.Fatal(err)
	}
	for i := 0; ep.most != maxTogether-1; i++ { // the transport may send some earlier, as its timer has expired
		if i == attempts {
			t.Fatalf("%d messages were kept together, want %d", ep.most, maxTogether-1)
		}
		es[0].links.combining.pause = 0 // this process may have been stopped in between
		sendRow(t, es[0], count)
		if err := es[0].Poll(); err != nil || len(es[0].links.combining.peers) != 0 {
			t.Fatalf("after a poll messages are kept to %d peers: %v", len(es[0].links.combining.peers), err)
		}
		for k := range byte(count) {
			if _, err := es[1].Recv(from(0, 0), b); err != nil || b[0] != k {
				t.Fatalf("got %d instead of %d: %v", b[0], k, err)
			}
		}
	}
}

// TestRowIsNotKept: the messages of a row are sent at once while a goroutine sleeps on the
// transport. Those that are kept leave with FlushSends, and before a message that is not eager.
func TestRowIsNotKept(t *testing.T) {
	for name, end := range map[string]func(e *Engine) error{
		"a sleeper":  func(*Engine) error { return nil },
		"FlushSends": (*Engine).FlushSends,
		"a rendezvous": func(e *Engine) error {
			_, err := e.Isend(to(0, 1, 1), make([]byte, 1<<20), Standard)
			return err
		},
	} {
		es, _ := rowEngines(t)
		e := es[0]
		e.waiters.sleeping = name == "a sleeper"
		sendRow(t, e, 10)
		if kept := len(e.links.combining.peers) != 0; kept == e.waiters.sleeping {
			t.Errorf("%s: before it, messages are kept: %v", name, kept)
		}
		e.waiters.sleeping = false
		if err := end(e); err != nil || len(e.links.combining.peers) != 0 {
			t.Errorf("%s: messages are kept to %d peers: %v", name, len(e.links.combining.peers), err)
		}
	}
}
