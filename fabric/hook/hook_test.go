package hook_test

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/hook"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/internal/soaktest"
)

// wrapped returns the peers of a new hub, wrapped.
func wrapped(o hook.Options) fabrictest.Peers {
	return func(tb testing.TB, n int) []fabric.Transport {
		o.Seed = soaktest.Seed(tb)
		return slices.Repeat([]fabric.Transport{hook.Wrap(mem.NewHub(n).Transport(), o)}, n)
	}
}

// TestPlain: a hook without faults passes the suite, and its calls do not allocate either.
func TestPlain(t *testing.T) {
	fabrictest.Run(t, wrapped(hook.Options{Share: true}))
}

// TestAllowed: a transport with faults that the rules allow keeps the rules.
func TestAllowed(t *testing.T) {
	for name, o := range map[string]hook.Options{
		"Again": {Again: 0.3},
		"Late":  {Async: 0.5, Poison: true},
		"All":   {Again: 0.1, Delay: 0.2, MaxDelay: 3, Interleave: 0.2, Async: 0.7, Poison: true, Share: true},
	} {
		t.Run(name, func(t *testing.T) { fabrictest.Rules(t, wrapped(o)) })
	}
}

// pair is two wrapped peers that are connected, driven by the test's own goroutine.
type pair struct {
	t     *testing.T
	hub   *mem.Hub
	d     [2]fabric.Domain
	hook  [2]*hook.Domain
	eps   [2]fabric.Endpoint
	wakes [2]int
}

func newPair(t *testing.T, o hook.Options) *pair {
	t.Helper()
	p := &pair{t: t, hub: mem.NewHub(2)}
	if o.Seed == 0 {
		o.Seed = soaktest.Seed(t)
	}
	o.OnOpen = func(self int, d *hook.Domain) { p.hook[self] = d }
	tr := hook.Wrap(p.hub.Transport(), o)
	for i := range 2 {
		d, err := tr.Open(t.Context(), &fabric.Config{Self: i, Size: 2, Wake: func() { p.wakes[i]++ }})
		if err != nil {
			t.Fatal(err)
		}
		p.d[i] = d
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 2 {
		var err error
		if p.eps[i], err = p.d[i].Connect(1-i, nil); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// polls polls a peer n times for at most one event, and returns the events with copies of their data.
func (p *pair) polls(peer, n int) []fabric.Event {
	p.t.Helper()
	var got []fabric.Event
	for range n {
		var evs [1]fabric.Event
		k, err := p.d[peer].Poll(evs[:])
		if err != nil {
			p.t.Fatal(err)
		}
		for _, ev := range evs[:k] {
			ev.Data = bytes.Clone(ev.Data)
			got = append(got, ev)
		}
	}
	return got
}

func (p *pair) send(from int, b ...byte) {
	p.t.Helper()
	if err := p.eps[from].Send(b, nil); err != nil {
		p.t.Fatal(err)
	}
}

// expectDown checks that a peer receives PeerDown once, and that its endpoint then returns ErrPeerDown.
func (p *pair) expectDown(peer int, because error) {
	p.t.Helper()
	got := p.polls(peer, 20)
	if len(got) != 1 || got[0].Kind != fabric.PeerDown || !errors.Is(got[0].Err, because) {
		p.t.Errorf("peer %d received %+v", peer, got)
	}
	if err := p.eps[peer].Send(nil, nil); !errors.Is(err, fabric.ErrPeerDown) {
		p.t.Errorf("send of peer %d: %v", peer, err)
	}
	if _, err := p.eps[peer].Read(nil, fabric.Region{}, fabric.RemoteKey{}, 1); !errors.Is(err, fabric.ErrPeerDown) {
		p.t.Errorf("read of peer %d: %v", peer, err)
	}
}

func TestPoison(t *testing.T) {
	for _, poison := range []bool{false, true} {
		p := newPair(t, hook.Options{Poison: poison})
		p.send(0, 1, 2, 3)
		var evs [1]fabric.Event
		if n, err := p.d[1].Poll(evs[:]); n != 1 || err != nil || !bytes.Equal(evs[0].Data, []byte{1, 2, 3}) {
			t.Fatalf("%v, %v, %+v", n, err, evs)
		}
		stale := evs[0].Data
		p.polls(1, 1)
		if want := []byte{0xdb, 0xdb, 0xdb}; poison != bytes.Equal(stale, want) {
			t.Errorf("poison %v: after the next Poll the bytes are %x", poison, stale)
		}
	}
}

func TestDrop(t *testing.T) {
	p := newPair(t, hook.Options{Drop: 1})
	p.send(0, 1)
	p.expectDown(0, hook.ErrInjected)
	p.expectDown(1, fabric.ErrPeerDown)
	if c := p.hook[0].Counters(); c.Dropped != 1 || c.Sends != 0 || c.PeerDowns != 1 {
		t.Errorf("counted %+v", c)
	}
}

func TestDown(t *testing.T) {
	p := newPair(t, hook.Options{})
	reason := errors.New("pulled the plug")
	if _, ready, err := p.d[0].Arm(); ready || err != nil {
		t.Fatal(ready, err)
	}
	p.hook[0].Down(1, reason)
	p.hook[0].Down(1, reason)
	if p.wakes[0] == 0 {
		t.Error("the sleeping peer was not woken")
	}
	p.expectDown(0, reason)
	p.expectDown(1, fabric.ErrPeerDown)
}

// TestCut: a cut connection is silent, and stays so.
func TestCut(t *testing.T) {
	for _, o := range []hook.Options{{}, {Cut: 1}} {
		p := newPair(t, o)
		if o.Cut == 0 {
			p.hook[0].Cut(1)
		}
		p.send(0, 1)
		p.send(0, 2)
		if done, err := p.eps[0].Read(nil, fabric.Region{}, fabric.RemoteKey{}, 1); done || err != nil {
			t.Errorf("a read ends: %v, %v", done, err)
		}
		if o.Cut == 0 {
			p.send(1, 3)
		}
		if err := p.d[1].Close(); err != nil {
			t.Fatal(err)
		}
		if got := p.polls(0, 20); len(got) != 0 {
			t.Errorf("from a cut connection: %+v", got)
		}
		if c := p.hook[0].Counters(); c.CutSends != 2 || c.Sends != 0 || c.CutEvents == 0 {
			t.Errorf("counted %+v", c)
		}
	}
}

// TestFail: each transfer fails once, by its result or by an event, and moves nothing.
func TestFail(t *testing.T) {
	const count = 100
	p := newPair(t, hook.Options{Fail: 1, Log: t.Logf})
	b, far := make([]byte, 4), []byte{1, 2, 3, 4}
	local, err1 := p.d[0].Register(b)
	remote, err2 := p.d[1].Register(far)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	ends := make(map[uint64]int)
	for token := range uint64(count) {
		f := p.eps[0].Read
		if token%2 == 1 {
			f = p.eps[0].Write
		}
		done, err := f(b, local, remote.Remote, token)
		if done || err != nil && !errors.Is(err, hook.ErrInjected) {
			t.Fatalf("done %v, %v", done, err)
		}
		if err != nil {
			ends[token]++
		}
	}
	now := len(ends)
	for _, ev := range p.polls(0, 2*count) {
		if ev.Kind != fabric.Done || !errors.Is(ev.Err, hook.ErrInjected) {
			t.Fatalf("%+v", ev)
		}
		ends[ev.Token]++
	}
	for token := range uint64(count) {
		if ends[token] != 1 {
			t.Errorf("transfer %d has ended %d times", token, ends[token])
		}
	}
	if now == 0 || now == count {
		t.Errorf("%d of %d fail immediately", now, count)
	}
	if b[0] != 0 || far[0] != 1 {
		t.Errorf("bytes moved: %v, %v", b, far)
	}
	if c := p.hook[0].Counters(); c.Failed != count || c.Reads != count/2 || c.WrittenBytes != 2*count {
		t.Errorf("counted %+v", c)
	}
}

// TestOrder: only Reorder changes the order of the messages of one peer.
func TestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		o       hook.Options
		ordered bool
	}{
		"Allowed": {hook.Options{Delay: 0.5, Interleave: 0.5}, true},
		"Shuffle": {hook.Options{Delay: 0.5, Reorder: 0.5}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Log = t.Logf
			p := newPair(t, c.o)
			var want, got []byte
			for i := range byte(200) {
				want = append(want, i)
				p.send(0, i)
			}
			for _, ev := range p.polls(1, 4000) {
				got = append(got, ev.Data...)
			}
			if bytes.Equal(got, want) != c.ordered {
				t.Errorf("arrived in order %v", got)
			}
			slices.Sort(got)
			if !bytes.Equal(got, want) {
				t.Errorf("arrived: %v", got)
			}
		})
	}
}

// TestSeed: the same seed and calls have the same results and counters.
func TestSeed(t *testing.T) {
	run := func(seed uint64) (hook.Counters, []fabric.Event) {
		p := newPair(t, hook.Options{Seed: seed, Again: 0.3, Delay: 0.3, Interleave: 0.3, Async: 0.5, Poison: true})
		mem, err := p.d[1].Register(make([]byte, 8))
		if err != nil {
			t.Fatal(err)
		}
		var evs []fabric.Event
		for i := range byte(200) {
			if err := p.eps[1].Send([]byte{i}, nil); err != nil && err != fabric.ErrAgain {
				t.Fatal(err)
			}
			if _, err := p.eps[0].Read(nil, fabric.Region{}, mem.Remote, uint64(i)); err != nil {
				t.Fatal(err)
			}
			evs = append(evs, p.polls(0, 1)...)
		}
		return p.hook[0].Counters(), evs
	}
	equal := func(a, b fabric.Event) bool {
		return a.Kind == b.Kind && a.Peer == b.Peer && a.Token == b.Token && bytes.Equal(a.Data, b.Data)
	}
	c1, e1 := run(1)
	c2, e2 := run(1)
	c3, e3 := run(2)
	if c1 != c2 || !slices.EqualFunc(e1, e2, equal) {
		t.Errorf("same seed, different results:\n%+v\n%+v", c1, c2)
	}
	if c1 == c3 && slices.EqualFunc(e1, e3, equal) {
		t.Errorf("different seeds, same results: %+v", c1)
	}
}

// TestSeedIsLogged: a seed that Wrap has chosen is logged, and differs every time.
func TestSeedIsLogged(t *testing.T) {
	var seeds []uint64
	for range 2 {
		hook.Wrap(mem.NewHub(1).Transport(), hook.Options{Log: func(_ string, args ...any) {
			seeds = append(seeds, args[0].(uint64))
		}})
	}
	if len(seeds) != 2 || seeds[0] == 0 || seeds[0] == seeds[1] {
		t.Errorf("seeds %x", seeds)
	}
}

func TestShare(t *testing.T) {
	for _, share := range []bool{false, true} {
		p := newPair(t, hook.Options{Share: share})
		if _, ok := p.d[0].(fabric.SharedMemory); ok != share {
			t.Errorf("share %v: has shared memory: %v", share, ok)
		}
	}
}

func TestCounters(t *testing.T) {
	p := newPair(t, hook.Options{})
	for p.eps[0].Send(make([]byte, 10), make([]byte, 90)) == nil {
	}
	sent := p.hook[0].Counters().Sends
	p.polls(1, int(sent)+5)
	if _, _, err := p.d[1].Arm(); err != nil {
		t.Fatal(err)
	}
	if c, want := p.hook[0].Counters(), (hook.Counters{Sends: sent, SentBytes: 100 * sent, Again: 1}); c != want {
		t.Errorf("sender: %+v, want %+v", c, want)
	}
	want := hook.Counters{Polls: sent + 5, EmptyPolls: 5, Arms: 1, Messages: sent, MessageBytes: 100 * sent}
	if c := p.hook[1].Counters(); c != want {
		t.Errorf("receiver: %+v, want %+v", c, want)
	}
}

// TestConcurrent: Cut and Down may be called by other goroutines than the owner's.
func TestConcurrent(t *testing.T) {
	p := newPair(t, hook.Options{Again: 0.1})
	var wg sync.WaitGroup
	wg.Go(func() { p.hook[0].Cut(1) })
	wg.Go(func() { p.hook[1].Down(0, errors.New("gone")) })
	for down := false; !down; {
		if err := p.eps[0].Send([]byte{1}, nil); err != nil && err != fabric.ErrAgain && !errors.Is(err, fabric.ErrPeerDown) {
			t.Fatal(err)
		}
		p.polls(0, 1)
		down = slices.ContainsFunc(p.polls(1, 1), func(ev fabric.Event) bool { return ev.Kind == fabric.PeerDown })
	}
	wg.Wait()
}
