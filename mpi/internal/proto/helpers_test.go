package proto

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// wrap wraps a transport for a test.
type wrap func(fabric.Transport) fabric.Transport

// open returns n engines that are connected by a hub. tune may change their configurations.
func open(t testing.TB, n int, w wrap, tune func(*Config)) []*Engine {
	t.Helper()
	tr := mem.NewHub(n).Transport()
	if w != nil {
		tr = w(tr)
	}
	es := make([]*Engine, n)
	for i := range es {
		es[i] = openOne(t, tr, i, n, tune)
	}
	return es
}

func openOne(t testing.TB, tr fabric.Transport, self, n int, tune func(*Config)) *Engine {
	t.Helper()
	waker := NewWaker()
	d, err := tr.Open(context.Background(), &fabric.Config{Self: self, Size: n, Wake: waker.Wake})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Domain: d, Self: self, Size: n, Waker: waker, Oversubscribed: true}
	if tune != nil {
		tune(&c)
	}
	if c.Recorder == nil {
		c.Recorder = newRecorder(t, self, n)
	}
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// newRecorder returns a recorder with a page of its own.
func newRecorder(t testing.TB, self, n int) *perf.Recorder {
	t.Helper()
	r, err := perf.NewRecorder(make([]byte, perf.PageBytes), perf.Identity{Rank: self, Size: n}, perf.On)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// oneBlock returns b as elements of one byte each.
func oneBlock(b []byte) *datatype.Buffer {
	d := datatype.Numbers(b, datatype.Byte)
	return &d
}

// bareProcess returns process 1 without an engine, and its endpoint for process 0.
func bareProcess(t testing.TB, tr fabric.Transport) (fabric.Domain, fabric.Endpoint) {
	t.Helper()
	d, err := tr.Open(context.Background(), &fabric.Config{Self: 1, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	ep, err := d.Connect(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d, ep
}

// each runs f for all engines concurrently, and then flushes what they have sent. All of it must be
// counted where it arrives.
func each(t testing.TB, es []*Engine, f func(self int, e *Engine) error) {
	t.Helper()
	var ranks sync.WaitGroup
	errs := make([]error, len(es))
	ended := make([]atomic.Bool, len(es))
	for i, e := range es {
		ranks.Go(func() {
			if errs[i] = f(i, e); errs[i] == nil {
				errs[i] = flushSends(es, i, ended)
			}
			ended[i].Store(true)
			if errs[i] != nil {
				e.Processes().Abort(errs[i])
				for _, other := range es {
					other.Processes().Abort(errs[i])
				}
			}
		})
	}
	ranks.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("engine %d: %v", i, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	waittest.Poll(t, "as many messages have arrived as were sent", func() bool { return !onItsWay(t, es) })
}

// onItsWay polls the engines, and reports whether messages or transfers between them are on their
// way, as they have recorded. It returns false if that is not known: an engine has failed, or does
// not record.
func onItsWay(t testing.TB, es []*Engine) bool {
	t.Helper()
	sent, arrived := uint64(0), uint64(0)
	for _, e := range es {
		if e.rec.Configured == nil || e.Poll() != nil {
			return false
		}
		s, err := recorded(e)
		if err != nil {
			t.Fatal(err)
		}
		if s.Paused {
			return false
		}
		sent, arrived = sent+s.Sent, arrived+s.Arrived
	}
	return sent != arrived
}

// flushSends blocks until the transport has taken all messages of one engine, or the engine has
// failed. A rank must not end before: another rank may wait for a control message that still waits
// for room. Engines whose ranks have ended are polled too, because they have to make that room.
func flushSends(es []*Engine, self int, ended []atomic.Bool) error {
	for {
		e := es[self]
		e.lock()
		flushed, failed := e.reached(watch{what: sendsFlushed}), e.failure.err != nil
		e.unlock()
		if flushed || failed {
			return nil
		}
		for i, e := range es {
			if i != self && !ended[i].Load() {
				continue
			}
			if err := e.Poll(); err != nil && i == self {
				return err
			}
		}
		runtime.Gosched()
	}
}

const testContext = 5

// to and from return routes in the context of the tests, where the ranks are the numbers of the
// processes.
func to(self, peer int, tag int32) Route {
	return Route{Context: testContext, Peer: int32(peer), Match: Match{Rank: int32(self), Tag: tag}}
}

func from(source int, tag int32) Route {
	return Route{Context: testContext, Match: Match{Rank: int32(source), Tag: tag}}
}

// variant says how a test changes the transport below.
type variant struct {
	noRead    bool // Caps reports no reads and writes
	refuse    bool // reads and writes fail, although Caps reports them
	pairing   bool // has shared words
	fragments bool // short messages; prefers fragments to reads
	measured  bool // the protocols of long messages are measured
	scarce    bool // little memory can be registered
}

func (tw variant) wrap(tr fabric.Transport) fabric.Transport {
	return &variantTransport{Transport: tr, variant: tw, words: map[[2]int][]uint64{}}
}

type variantTransport struct {
	fabric.Transport
	variant
	mu    sync.Mutex
	words map[[2]int][]uint64 // by sender and receiver
}

func (tr *variantTransport) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	inner, err := tr.Transport.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	d := &variantDomain{Domain: inner, tr: tr, self: c.Self, sizes: map[uint64]int{}}
	if tr.pairing {
		return pairingDomain{d}, nil
	}
	return d, nil
}

type variantDomain struct {
	fabric.Domain
	tr    *variantTransport
	self  int
	used  int // bytes registered
	sizes map[uint64]int
}

// errScarce is the error of a domain with a low limit on registered memory.
var errScarce = fmt.Errorf("no more memory can be registered: %w", syscall.ENOMEM)

func (d *variantDomain) Register(b []byte) (fabric.Region, error) {
	if d.tr.scarce && d.used+len(b) > maxTestMessage {
		return fabric.Region{}, errScarce
	}
	r, err := d.Domain.Register(b)
	if err == nil {
		d.used += len(b)
		d.sizes[r.Local] = len(b)
	}
	return r, err
}

func (d *variantDomain) Deregister(r fabric.Region) error {
	d.used -= d.sizes[r.Local]
	delete(d.sizes, r.Local)
	return d.Domain.Deregister(r)
}

func (d *variantDomain) Caps() fabric.Caps {
	c := d.Domain.Caps()
	if d.tr.noRead {
		c.Read, c.Write = false, false
	}
	if d.tr.fragments {
		c.Eager, c.Stream = 1500, 60000
	}
	if d.tr.measured {
		c.MaxStream = maxTestMessage / 2
	}
	return c
}

func (d *variantDomain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	ep, err := d.Domain.Connect(peer, addr)
	if err == nil && d.tr.refuse {
		ep = refusing{ep}
	}
	return ep, err
}

// refusing is an endpoint whose reads and writes fail.
type refusing struct{ fabric.Endpoint }

var errRefused = errors.Join(fabric.ErrNotSupported, errors.New("refused by the test"))

func (refusing) Read([]byte, fabric.Region, fabric.RemoteKey, uint64) (bool, error) {
	return false, errRefused
}

func (refusing) Write([]byte, fabric.Region, fabric.RemoteKey, uint64) (bool, error) {
	return false, errRefused
}

// pairingDomain has shared words on the heap, so that the race detector checks what the two sides
// do with them.
type pairingDomain struct{ *variantDomain }

func (d pairingDomain) Words(peer int, inbound bool) []uint64 {
	pair := [2]int{d.self, peer}
	if inbound {
		pair = [2]int{peer, d.self}
	}
	d.tr.mu.Lock()
	defer d.tr.mu.Unlock()
	if d.tr.words[pair] == nil {
		d.tr.words[pair] = make([]uint64, 4*wordStride)
	}
	return d.tr.words[pair]
}

// Completed reports whether h names an operation that has completed and has not been collected, or
// is stale.
func (e *Engine) Completed(h Handle) bool {
	e.lock()
	defer e.unlock()
	return !h.valid() || h.r.state == done
}
