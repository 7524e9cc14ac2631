package verbstest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ibrun/ibrun/verbs"
)

// fixture is an open device with what most rules need. It belongs to the goroutine of the test.
type fixture struct {
	t          testing.TB
	open       Open
	ctx        *verbs.Context
	caps       verbs.DeviceAttr
	port       verbs.PortAttr
	isRXE      bool // the device is the kernel's rxe, whose ways of its own are known
	pd         *verbs.PD
	timeout    time.Duration // how long something that does not come is waited for
	cqs        []*verbs.CQ   // that are polled
	tracker    *completionTracker
	wcs        [16]verbs.WC
	ringByFlag bool // how do rang the last time
}

// newFixture opens the device. When the test ends it is closed.
func newFixture(t *testing.T, open Open) *fixture {
	t.Helper()
	r := &fixture{t: t, open: open, timeout: waitTimeout(t), ctx: open(t), tracker: newCompletionTracker()}
	t.Cleanup(func() {
		if err := r.ctx.Close(); err != nil {
			t.Errorf("close the device: %v", err)
		}
	})
	var err error
	if r.caps, err = r.ctx.QueryDevice(); err != nil {
		t.Fatal(err)
	}
	const softVendor = 0xffffff
	r.isRXE = r.caps.VendorID == softVendor
	for p := 1; p <= int(r.caps.Ports) && r.port.State != verbs.PortActive; p++ {
		if r.port, err = r.ctx.QueryPort(p); err != nil {
			t.Fatal(err)
		}
	}
	r.pd = must(r.ctx.AllocPD())(t)
	return r
}

// must returns a function that fails the test with an error, or returns the value.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// context is one that ends when waiting is given up.
func (r *fixture) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	r.t.Cleanup(cancel)
	return ctx
}

// region registers n bytes that peers may use in all ways, filled with what fill makes of the seed.
func (r *fixture) region(n int, seed uint64) ([]byte, *verbs.MR) {
	r.t.Helper()
	return r.regionWith(n, seed, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead|verbs.RemoteAtomic)
}

func (r *fixture) regionWith(n int, seed uint64, a verbs.Access) ([]byte, *verbs.MR) {
	r.t.Helper()
	buf := fillPattern(make([]byte, n), seed)
	return buf, must(r.pd.Register(buf, a))(r.t)
}

func (r *fixture) cq(n int, ch *verbs.Channel) *verbs.CQ {
	r.t.Helper()
	cq := must(r.ctx.CreateCQ(n, ch))(r.t)
	r.cqs = append(r.cqs, cq)
	return cq
}

// endpoint is a queue pair with a completion queue and memory of its own.
type endpoint struct {
	*verbs.QP
	r         *fixture
	cq        *verbs.CQ
	srq       *verbs.SRQ
	buf       []byte
	mr        *verbs.MR
	signalAll bool // every send is signaled
}

// bufferSize is how many bytes an end has registered.
const bufferSize = 1 << 17

// newEndpoint makes a queue pair in state INIT. What the configuration leaves out is chosen.
func (r *fixture) newEndpoint(cfg verbs.QPConfig) *endpoint {
	r.t.Helper()
	if cfg.Type == 0 {
		cfg.Type = verbs.RC
	}
	if cfg.Access == 0 {
		cfg.Access = verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	}
	if cfg.Type != verbs.RC {
		cfg.Access &= verbs.RemoteWrite
	}
	if cfg.SendCQ == nil {
		cfg.SendCQ = r.cq(256, nil)
	}
	if cfg.Type == verbs.UD && cfg.QKey == 0 {
		cfg.QKey = 0x11111111
	}
	e := &endpoint{r: r, cq: cfg.SendCQ, srq: cfg.SRQ, signalAll: cfg.SignalAll, QP: must(r.pd.CreateQP(cfg))(r.t)}
	e.buf, e.mr = r.region(bufferSize, uint64(e.Num()))
	return e
}

// pair makes two queue pairs that are connected with each other.
func (r *fixture) pair(cfg verbs.QPConfig) (a, b *endpoint) {
	r.t.Helper()
	return r.pairWith(cfg, verbs.DefaultParams())
}

func (r *fixture) pairWith(cfg verbs.QPConfig, p verbs.Params) (a, b *endpoint) {
	r.t.Helper()
	a, b = r.newEndpoint(cfg), r.newEndpoint(cfg)
	a.connect(b, p)
	b.connect(a, p)
	return a, b
}

// connect connects with a peer whose address has travelled as bytes.
func (e *endpoint) connect(to *endpoint, p verbs.Params) {
	e.r.t.Helper()
	if err := e.ConnectWith(to.address(), p); err != nil {
		e.r.t.Fatal(err)
	}
}

func (e *endpoint) address() verbs.Address {
	e.r.t.Helper()
	blob := must(must(e.Address())(e.r.t).MarshalBinary())(e.r.t)
	var a verbs.Address
	if err := a.UnmarshalBinary(blob); err != nil {
		e.r.t.Fatal(err)
	}
	return a
}

// fastFailParams are parameters of connections that are to fail soon.
func fastFailParams() verbs.Params {
	p := verbs.DefaultParams()
	p.Timeout, p.RetryCount, p.RNRRetry, p.MinRNRTimer = 10, 1, 1, 1
	return p
}

// completionOpcodes says as what a request of a send queue completes.
var completionOpcodes = map[verbs.Opcode]verbs.WCOpcode{
	verbs.OpSend: verbs.WCSend, verbs.OpSendImm: verbs.WCSend, verbs.OpSendInvalidate: verbs.WCSend,
	verbs.OpWrite: verbs.WCWrite, verbs.OpWriteImm: verbs.WCWrite, verbs.OpRead: verbs.WCRead,
	verbs.OpCompareSwap: verbs.WCCompareSwap, verbs.OpFetchAdd: verbs.WCFetchAdd,
	verbs.OpBindMW: verbs.WCBindMW, verbs.OpLocalInvalidate: verbs.WCLocalInvalidate,
}

// expectCompletion enters a request that was posted.
func (e *endpoint) expectCompletion(id uint64, op verbs.Opcode, f verbs.Flags, err error) uint64 {
	e.r.t.Helper()
	if err != nil {
		e.r.t.Fatal(err)
	}
	e.r.tracker.add(pendingRequest{id: id, queue: queueID{e.Num(), false}, op: completionOpcodes[op], unsignaled: f&verbs.Signaled == 0 && !e.signalAll})
	return id
}

// post queues a request and returns its number.
func (e *endpoint) post(q verbs.Request) uint64 {
	e.r.t.Helper()
	q.ID = e.r.tracker.nextID()
	return e.expectCompletion(q.ID, q.Op, q.Flags, e.Post(&q))
}

// postAndRing queues a signaled request and rings, by flag and by call in turn.
func (e *endpoint) postAndRing(q verbs.Request) uint64 {
	e.r.t.Helper()
	q.Flags |= verbs.Signaled
	if e.r.ringByFlag = !e.r.ringByFlag; e.r.ringByFlag {
		q.Flags |= verbs.RingDoorbell
	}
	id := e.post(q)
	if !e.r.ringByFlag {
		e.ringDoorbell()
	}
	return id
}

func (e *endpoint) ringDoorbell() {
	e.r.t.Helper()
	if err := e.Ring(); err != nil {
		e.r.t.Fatal(err)
	}
}

// postRecv queues a receive and returns its number.
func (e *endpoint) postRecv(sge ...verbs.SGE) uint64 {
	e.r.t.Helper()
	id := e.r.tracker.nextID()
	if e.srq != nil {
		return e.r.postSharedRecv(e.srq, id, sge...)
	}
	if err := e.Recv(id, sge...); err != nil {
		e.r.t.Fatal(err)
	}
	e.r.tracker.add(pendingRequest{id: id, queue: queueID{e.Num(), true}, op: verbs.WCRecv})
	return id
}

func (r *fixture) postSharedRecv(srq *verbs.SRQ, id uint64, sge ...verbs.SGE) uint64 {
	r.t.Helper()
	if err := srq.Recv(id, sge...); err != nil {
		r.t.Fatal(err)
	}
	r.tracker.add(pendingRequest{id: id, op: verbs.WCRecv, shared: true})
	return id
}

// close closes the queue pair; what it has not completed is forgotten.
func (e *endpoint) close() {
	e.r.t.Helper()
	if err := e.Close(); err != nil {
		e.r.t.Fatal(err)
	}
	e.r.poll() // what had completed
	e.r.tracker.drop(queueID{e.Num(), false})
	e.r.tracker.drop(queueID{e.Num(), true})
}

// poll polls every queue once, and enters what it finds.
func (r *fixture) poll() int {
	r.t.Helper()
	all := 0
	for _, cq := range r.cqs {
		n, err := cq.Poll(r.wcs[:])
		if err != nil {
			r.t.Fatal(err)
		}
		r.record(r.wcs[:n])
		all += n
	}
	return all
}

func (r *fixture) record(wcs []verbs.WC) {
	r.t.Helper()
	for _, wc := range wcs {
		if err := r.tracker.record(wc); err != nil {
			r.t.Fatal(err)
		}
	}
}

// pollUntil polls until something is so.
func (r *fixture) pollUntil(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(r.timeout); !is(); {
		if r.poll() > 0 {
			continue
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s: not within %v; open requests: %d", what, r.timeout, len(r.tracker.pending))
		}
		runtime.Gosched()
	}
}

// await waits for the completion of a request.
func (r *fixture) await(id uint64) verbs.WC {
	r.t.Helper()
	r.pollUntil("completion", func() bool { return r.tracker.isCompleted(id) })
	return r.tracker.completed[id]
}

// awaitSuccess waits for requests, which must succeed, and returns the completion of the last.
func (r *fixture) awaitSuccess(ids ...uint64) (wc verbs.WC) {
	r.t.Helper()
	for _, id := range ids {
		if wc = r.await(id); wc.Err() != nil {
			r.t.Fatal(wc.Err())
		}
	}
	return wc
}

// awaitFailure waits for a request, which must fail with one of these statuses, and checks that the error says of what it is.
func (r *fixture) awaitFailure(e *endpoint, id uint64, with ...verbs.Status) {
	r.t.Helper()
	wc := r.await(id)
	if !slices.Contains(with, wc.Status) {
		r.t.Fatalf("request %#x: %v instead of %v", id, wc.Status, with)
	}
	err := wc.Err()
	var c *verbs.CompletionError
	if !errors.As(err, &c) || c.ID != id || c.QPN != e.Num() || !errors.Is(err, wc.Status) {
		r.t.Fatalf("request %#x of queue pair %#x: its error is %#v", id, e.Num(), err)
	}
}

// drain waits until every request has completed, and checks that nothing else comes.
func (r *fixture) drain() {
	r.t.Helper()
	r.pollUntil("the end of all requests", func() bool { return len(r.tracker.pending) == 0 })
	for range 3 {
		r.poll() // a completion more than there should be is an error
		runtime.Gosched()
	}
}

// awaitState waits until a queue pair is in a state.
func (r *fixture) awaitState(e *endpoint, want verbs.State) {
	r.t.Helper()
	r.pollUntil("state "+want.String(), func() bool { return must(e.State())(r.t) == want })
}

// checkError checks that an error is of a kind, and says of what device it is.
func (r *fixture) checkError(err, kind error, what string) *verbs.Error {
	r.t.Helper()
	var e *verbs.Error
	if !errors.Is(err, kind) || !errors.As(err, &e) {
		r.t.Fatalf("%s: %v instead of an error that is %v", what, err, kind)
	}
	if e.Device != r.ctx.Name() {
		r.t.Fatalf("%s: the error %v is of device %q", what, err, e.Device)
	}
	return e
}

// checkPostError checks that a request was refused, and that the error says which and where.
func (e *endpoint) checkPostError(id uint64, err, kind error, what string) {
	e.r.t.Helper()
	got := e.r.checkError(err, kind, what)
	if got.QPN != e.Num() || got.ID != id || !got.Post {
		e.r.t.Fatalf("%s: %v does not name queue pair %#x and request %d", what, err, e.Num(), id)
	}
}

// fillPattern makes bytes that no other seed makes, and returns them.
func fillPattern(b []byte, seed uint64) []byte {
	x := seed*0x9e3779b97f4a7c15 + 1
	var word [8]byte
	for i := 0; i < len(b); i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(word[:], x)
		copy(b[i:], word[:])
	}
	return b
}

// checkBytes fails the test unless all bytes are as they should be.
func checkBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Fatalf("%s: byte %d of %d is not what it should be (%d bytes expected)", what, i, len(got), len(want))
}
