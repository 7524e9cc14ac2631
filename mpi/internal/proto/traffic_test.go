package proto

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/hook"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/perf"
)

// testMessage is a message of random traffic. The plan depends only on a seed, so both sides know
// it.
type testMessage struct {
	from, to int
	tag      int32
	size     int
	room     int // length of the receive buffer; if it is less than size the message is truncated
	mode     Mode
	number   int
}

const maxTestMessage = 150 << 10

// draw returns random messages between n processes.
func draw(c *rand.Rand, n, each int) []testMessage {
	var ps []testMessage
	sizes := []int{0, 1, 100, 5000, 8192, 8193, 20000, 70000, maxTestMessage}
	for number := range n * n * each {
		p := testMessage{from: number % n, to: number / n % n, tag: c.Int32N(3), number: number}
		p.size = sizes[c.IntN(len(sizes))]
		if p.size > 1 && c.IntN(2) == 0 {
			p.size -= c.IntN(p.size / 2)
		}
		p.room = p.size + c.IntN(3)
		if p.size > 0 && c.IntN(5) == 0 {
			p.room = c.IntN(p.size)
		}
		if c.IntN(3) == 0 {
			p.mode = Synchronous
		}
		ps = append(ps, p)
	}
	return ps
}

func (p testMessage) fill(b []byte) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + p.number*13)
	}
}

// check checks the result of a receive. b has guard bytes after the room for the message.
func (p testMessage) check(b []byte, st Status, err error) error {
	want := min(p.size, p.room)
	switch truncated := p.size > p.room; {
	case truncated != errors.Is(err, ErrTruncate), !truncated && err != nil:
		return fmt.Errorf("%+v: %v", p, err)
	case st != Status{Source: int32(p.from), Tag: p.tag, Bytes: want}:
		return fmt.Errorf("%+v: status %+v", p, st)
	}
	whole := make([]byte, want)
	p.fill(whole)
	if i := slices.IndexFunc(b[want:], func(x byte) bool { return x != guard }); i >= 0 {
		return fmt.Errorf("%+v: byte %d, after the message, was written", p, want+i)
	}
	if !slices.Equal(b[:want], whole) {
		return fmt.Errorf("%+v: wrong bytes", p)
	}
	return nil
}

const guard = 0xa5

func guarded(n int) []byte {
	return slices.Repeat([]byte{guard}, n+64)
}

// operation is the send or receive of a message.
type operation struct {
	p   testMessage
	buf []byte
}

// exchange sends and receives the messages of one process. Sends are started in order, several at a
// time. Receives are posted in any order of the streams.
func exchange(e *Engine, self int, ps []testMessage, c *rand.Rand) error {
	var sends []testMessage
	streams := map[[2]int][]testMessage{}
	var keys [][2]int
	for _, p := range ps {
		if p.from == self {
			sends = append(sends, p)
		}
		if k := [2]int{p.from, int(p.tag)}; p.to == self {
			if streams[k] == nil {
				keys = append(keys, k)
			}
			streams[k] = append(streams[k], p)
		}
	}
	var hs []Handle
	var fs []operation
	for len(sends)+len(keys)+len(hs) > 0 {
		if len(keys) > 0 && c.IntN(2) == 0 {
			i := c.IntN(len(keys))
			p := streams[keys[i]][0]
			if streams[keys[i]] = streams[keys[i]][1:]; len(streams[keys[i]]) == 0 {
				keys = slices.Delete(keys, i, i+1)
			}
			b := guarded(p.room)
			hs, fs = append(hs, e.Irecv(from(p.from, p.tag), b[:p.room])), append(fs, operation{p, b})
		}
		if len(sends) > 0 && c.IntN(2) == 0 {
			p := sends[0]
			sends = sends[1:]
			b := make([]byte, p.size)
			p.fill(b)
			h, err := e.Isend(to(self, p.to, p.tag), b, p.mode)
			if err != nil {
				return err
			}
			hs, fs = append(hs, h), append(fs, operation{p, nil})
		}
		if len(hs) == 0 {
			continue
		}
		i, st, ok, err := e.Requests().TestAny(perf.Testany, hs)
		if err == nil && !ok && len(sends)+len(keys) == 0 {
			i, st, err = e.Requests().WaitAny(context.Background(), perf.Waitany, hs)
			ok = true
		}
		if !ok && err == nil {
			continue
		}
		if i < 0 {
			return err
		}
		if fs[i].buf != nil {
			err = fs[i].p.check(fs[i].buf, st, err)
		}
		if err != nil {
			return err
		}
		hs, fs = slices.Delete(hs, i, i+1), slices.Delete(fs, i, i+1)
	}
	return nil
}

// drawnClock returns a clock whose time passes by chance.
func drawnClock(c *rand.Rand) func() time.Duration {
	var mu sync.Mutex
	now := time.Duration(0)
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		now += 1 + time.Duration(c.ExpFloat64()*float64(time.Microsecond))
		return now
	}
}

// TestTraffic exchanges random messages with every protocol, also where the processes draw a
// protocol for each message, and where they choose it by times that are drawn; with IBRUN_SOAK=1
// more of them.
func TestTraffic(t *testing.T) {
	rough := func(o hook.Options) wrap {
		return func(tr fabric.Transport) fabric.Transport { return hook.Wrap(tr, o) }
	}
	both := func(a, b wrap) wrap { return func(tr fabric.Transport) fabric.Transport { return b(a(tr)) } }
	seed := soaktest.Seed(t)
	hooks := hook.Options{Seed: seed, Again: 0.3, Delay: 0.2, Interleave: 0.2, Async: 0.3, Poison: true}
	for name, w := range map[string]wrap{
		"plain":           nil,
		"rough":           rough(hooks),
		"copies":          variant{noRead: true}.wrap,
		"rough copies":    both(variant{noRead: true}.wrap, rough(hooks)),
		"fragments":       variant{fragments: true}.wrap,
		"rough fragments": both(variant{fragments: true}.wrap, rough(hooks)),
		"scarce":          both(variant{scarce: true}.wrap, rough(hooks)),
		"refused":         variant{refuse: true}.wrap,
		"shared":          variant{pairing: true}.wrap,
		"shared, refused": variant{pairing: true, refuse: true}.wrap,
		"shared, rough": both(rough(hook.Options{Seed: seed, Again: 0.3, Delay: 0.3, Interleave: 0.2, Poison: true}),
			variant{pairing: true}.wrap),
		"measured":         variant{fragments: true, measured: true}.wrap,
		"measured, shared": variant{fragments: true, measured: true, pairing: true}.wrap,
		"measured, rough": both(rough(hook.Options{Seed: seed, Again: 0.3, Delay: 0.3, Interleave: 0.2, Poison: true}),
			variant{fragments: true, measured: true, pairing: true}.wrap),
		"measured, refused": variant{fragments: true, measured: true, pairing: true, refuse: true}.wrap,
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				unexpected int  // room for unexpected bytes
				random     bool // each process draws the protocol of each message
			}{{0, false}, {20000, false}, {0, true}, {20000, true}} {
				t.Logf("%+v", c)
				const n = 3
				es := open(t, n, w, func(cfg *Config) {
					cfg.UnexpectedLimit = c.unexpected
					if c.random {
						cfg.Forced = &protocols.Forced{Random: rand.New(rand.NewPCG(seed, uint64(cfg.Self)))}
					}
				})
				for i, e := range es {
					e.links.now = drawnClock(rand.New(rand.NewPCG(seed, uint64(i))))
				}
				ps := draw(rand.New(rand.NewPCG(seed, 0)), n, soaktest.Choose(20, 12))
				each(t, es, func(self int, e *Engine) error {
					if err := exchange(e, self, ps, rand.New(rand.NewPCG(seed, uint64(self)+1))); err != nil {
						return err
					}
					return e.FlushSends() // FIN messages for other processes may wait for room
				})
				for i, e := range es {
					if e.unexpected.held != 0 || len(e.unexpected.paused) != 0 {
						t.Errorf("engine %d still stores %d bytes of messages and pauses %v", i, e.unexpected.held, e.unexpected.paused)
					}
				}
			}
		})
	}
}

// TestScarce: memory that cannot be registered is copied, at either end, and the user gets one
// warning.
func TestScarce(t *testing.T) {
	warnings := make([]int, 2)
	var self int
	es := open(t, 2, variant{scarce: true}.wrap, func(c *Config) {
		n := self
		self++
		c.Warn = func(string) { warnings[n]++ }
	})
	each(t, es, func(self int, e *Engine) error {
		const size = 100 << 10 // there is room for one
		var hs []Handle
		for tag := range 4 {
			if self == 1 {
				hs = append(hs, e.Irecv(from(0, int32(tag)), make([]byte, size)))
				continue
			}
			h, err := e.Isend(to(0, 1, int32(tag)), make([]byte, size), Standard)
			if err != nil {
				return err
			}
			hs = append(hs, h)
		}
		_, err := e.Requests().WaitAll(perf.Waitall, hs, nil)
		return errors.Join(err, e.FlushSends())
	})
	if warnings[0] != 1 || warnings[1] > 1 {
		t.Errorf("the users were warned %v times", warnings)
	}
}
