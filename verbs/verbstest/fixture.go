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

// fixture is an open device with the objects that most rules need. Only the goroutine of the test may use it.
type fixture struct {
	t          testing.TB
	open       Open
	ctx        *verbs.Context
	caps       verbs.DeviceAttr
	port       verbs.PortAttr
	pkeyIndex  int  // of the first partition of which the port is a full member
	isRXE      bool // the device is the kernel's rxe, which differs from the standard in some ways
	pd         *verbs.PD
	timeout    time.Duration // of each wait
	cqs        []*verbs.CQ   // to poll
	tracker    *completionTracker
	wcs        [16]verbs.WC
	ringByFlag bool // whether the last postAndRing used the flag
	serialized bool // whether the last newEndpoint made a serialized pair
	threads    bool // several goroutines use the queue pairs: none is serialized
}

// newFixture opens the device. It is closed when the test ends.
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
	r.pkeyIndex = r.fullPKey()
	r.pd = must(r.ctx.AllocPD())(t)
	return r
}

// fullPKey returns the index of the first partition of which the port is a full member: limited members cannot reach each other.
func (r *fixture) fullPKey() int {
	r.t.Helper()
	const full = 1 << 15
	number := r.portNumber()
	for i := range int(r.port.PKeyTableLen) {
		if must(r.ctx.QueryPKey(number, i))(r.t)&full != 0 {
			return i
		}
	}
	r.t.Fatal("the port is not a full member of a partition")
	return 0
}

// has reports whether an object could be created. If the device does not have such objects, it checks the error.
func (r *fixture) has(err error, what string) bool {
	r.t.Helper()
	if errors.Is(err, verbs.ErrNotSupported) {
		r.checkError(err, verbs.ErrNotSupported, what)
		return false
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return true
}

// hasUC reports whether the device has unreliable connections.
func (r *fixture) hasUC() bool {
	r.t.Helper()
	q, err := r.pd.CreateQP(verbs.QPConfig{Type: verbs.UC, SendCQ: r.cq(16, nil)})
	if !r.has(err, "an unreliable connection") {
		return false
	}
	if err := q.Close(); err != nil {
		r.t.Fatal(err)
	}
	return true
}

// hasSRQ reports whether the device has shared receive queues.
func (r *fixture) hasSRQ() bool {
	r.t.Helper()
	if r.caps.MaxSRQ > 0 {
		return true
	}
	_, err := r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 1})
	r.checkError(err, verbs.ErrNotSupported, "a shared receive queue")
	return false
}

// inlineBytes returns how many inline bytes, at most want, a queue pair of the given type can have. A device refuses more than it
// has, or grants fewer.
func (r *fixture) inlineBytes(kind verbs.QPType, want int) int {
	r.t.Helper()
	q, err := r.pd.CreateQP(verbs.QPConfig{Type: kind, SendCQ: r.cq(16, nil), MaxInline: want})
	if errors.Is(err, verbs.ErrInvalid) {
		return 0
	}
	if err != nil {
		r.t.Fatal(err)
	}
	granted := min(q.Cap().MaxInline, want)
	if err := q.Close(); err != nil {
		r.t.Fatal(err)
	}
	return granted
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

// context returns a context that expires after the timeout.
func (r *fixture) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	r.t.Cleanup(cancel)
	return ctx
}

// region registers n bytes with all access rights, filled by fillPattern with this seed.
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

// poll polls every completion queue once, and records the completions.
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

// pollUntil polls until the condition is true.
func (r *fixture) pollUntil(what string, is func() bool) {
	r.t.Helper()
	for end := time.Now().Add(r.timeout); !is(); {
		if r.poll() > 0 {
			continue
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s: not within %v; pending requests: %d", what, r.timeout, len(r.tracker.pending))
		}
		runtime.Gosched()
	}
}

// await polls until a request has completed, and returns the completion.
func (r *fixture) await(id uint64) verbs.WC {
	r.t.Helper()
	r.pollUntil("completion", func() bool { return r.tracker.isCompleted(id) })
	return r.tracker.completed[id]
}

// awaitSuccess polls until the requests have completed. They must succeed. It returns the last completion.
func (r *fixture) awaitSuccess(ids ...uint64) (wc verbs.WC) {
	r.t.Helper()
	for _, id := range ids {
		if wc = r.await(id); wc.Err() != nil {
			r.t.Fatal(wc.Err())
		}
	}
	return wc
}

// awaitFailure polls until a request has completed. It must fail with one of these statuses, and its error must name the
// request and the queue pair.
func (r *fixture) awaitFailure(e *endpoint, id uint64, with ...verbs.Status) {
	r.t.Helper()
	wc := r.await(id)
	if !slices.Contains(with, wc.Status) {
		r.t.Fatalf("request %#x: %v instead of %v", id, wc.Status, with)
	}
	err := wc.Err()
	var c *verbs.CompletionError
	if !errors.As(err, &c) || c.ID != id || c.QPN != e.Num() || !errors.Is(err, wc.Status) {
		r.t.Fatalf("request %#x of queue pair %#x: the error is %#v", id, e.Num(), err)
	}
}

// drain polls until every request has completed, and checks that no further completion arrives.
func (r *fixture) drain() {
	r.t.Helper()
	r.pollUntil("completion of all requests", func() bool { return len(r.tracker.pending) == 0 })
	for range 3 {
		r.poll() // fails the test if there is an unexpected completion
		runtime.Gosched()
	}
}

// awaitState polls until a queue pair is in a state.
func (r *fixture) awaitState(e *endpoint, want verbs.State) {
	r.t.Helper()
	r.pollUntil("state "+want.String(), func() bool { return must(e.State())(r.t) == want })
}

// checkError checks that an error is of a kind and names the device.
func (r *fixture) checkError(err, kind error, what string) *verbs.Error {
	r.t.Helper()
	var e *verbs.Error
	if !errors.Is(err, kind) || !errors.As(err, &e) {
		r.t.Fatalf("%s: %v instead of an error that is %v", what, err, kind)
	}
	if e.Device != r.ctx.Name() {
		r.t.Fatalf("%s: the error %v names device %q", what, err, e.Device)
	}
	return e
}

// checkPostError checks that posting a request failed, and that the error names the request and the queue pair.
func (e *endpoint) checkPostError(id uint64, err, kind error, what string) {
	e.r.t.Helper()
	got := e.r.checkError(err, kind, what)
	if got.QPN != e.Num() || got.ID != id || !got.Post {
		e.r.t.Fatalf("%s: %v does not name queue pair %#x and request %d", what, err, e.Num(), id)
	}
}

// fillPattern fills b with pseudo-random bytes made from the seed, and returns b.
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

// checkBytes fails the test unless the bytes are equal.
func checkBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Fatalf("%s: byte %d of %d is wrong (%d bytes expected)", what, i, len(got), len(want))
}
