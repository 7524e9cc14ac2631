//go:build linux

package verbstest_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
	"github.com/ibrun/ibrun/verbs/internal/rxetest"
)

// lost is a device that is removed in the middle of its work: the kernel answers every call with EIO, and DEVICE_FATAL
// comes.
type lost struct {
	t      *testing.T
	kernel *rxetest.Kernel
	ctx    *verbs.Context
	pd     *verbs.PD
	ch     *verbs.Channel
	cq     *verbs.CQ // with the channel
	other  *verbs.CQ // without
	a, b   *verbs.QP
	srq    *verbs.SRQ
	mr     *verbs.MR
}

// must returns a function that fails the test with an error, or returns the value.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newLost(t *testing.T) *lost {
	k := rxetest.New()
	ctx := must(verbs.OpenOn(rxe.On(k), k.Device()))(t)
	t.Cleanup(func() { ctx.Close() })
	l := &lost{t: t, kernel: k, ctx: ctx, pd: must(ctx.AllocPD())(t), ch: must(ctx.CreateChannel())(t)}
	l.cq, l.other = must(ctx.CreateCQ(16, l.ch))(t), must(ctx.CreateCQ(64, nil))(t)
	l.mr = must(l.pd.Register(make([]byte, 4096), verbs.LocalWrite))(t)
	l.srq = must(l.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 8}))(t)
	l.a = must(l.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: l.other}))(t)
	l.b = must(l.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: l.cq}))(t)
	for _, way := range [][2]*verbs.QP{{l.a, l.b}, {l.b, l.a}} {
		to, err := way[1].Address()
		if err := errors.Join(err, way[0].Connect(to)); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// gone checks that an error says that the device is lost, and which.
func (l *lost) gone(what string, err error) {
	l.t.Helper()
	var e *verbs.Error
	if !errors.Is(err, verbs.ErrDeviceLost) || !errors.As(err, &e) || e.Device != l.ctx.Name() {
		l.t.Errorf("%s: %v instead of an error that is %v", what, err, verbs.ErrDeviceLost)
	}
}

// What has completed can still be had; what has not never completes, and whoever waits for it is told.
func TestRemoval(t *testing.T) {
	files := len(must(os.ReadDir("/proc/self/fd"))(t))
	goroutines := runtime.NumGoroutine()
	l := newLost(t)
	post := func(id uint64) error {
		err := l.a.Write(id, verbs.Signaled, verbs.Remote{}, l.mr.SGE(0, 8))
		if err == nil {
			err = l.a.Ring()
		}
		return err
	}
	if err := errors.Join(post(1), post(2)); err != nil {
		t.Fatal(err)
	}
	l.kernel.HoldDoorbells(true)
	if err := errors.Join(post(3), l.a.Recv(4, l.mr.SGE(0, 8))); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waiters := map[string]func() error{
		"a wait for completions": func() error { _, err := l.cq.Wait(ctx, make([]verbs.WC, 1)); return err },
		"a wait for an event":    func() error { _, err := l.ch.Wait(ctx); return err },
	}
	type end struct {
		what string
		err  error
	}
	ends := make(chan end)
	for what, wait := range waiters {
		for range 2 {
			go func() { ends <- end{what, wait()} }()
		}
	}
	for range 100 {
		runtime.Gosched() // let them fall asleep; it is right in any case
	}
	l.kernel.RemoveDevice()
	for range 2 * len(waiters) {
		e := <-ends
		l.gone(e.what, e.err)
	}
	if ev, err := l.ctx.NextEvent(ctx); err != nil || ev.Type != verbs.EventDeviceFatal {
		t.Errorf("the event is %v: %v", ev, err)
	}

	wcs := make([]verbs.WC, 8)
	n, err := l.other.Poll(wcs)
	if err != nil || n != 2 || wcs[0].ID != 1 || wcs[1].ID != 2 {
		t.Errorf("two requests have completed: %d, %v", n, err)
	}
	for range 2 {
		_, err = l.other.Poll(wcs)
		l.gone("poll", err)
	}
	l.calls(post)
	l.closes()
	if err := l.ctx.Close(); err != nil {
		l.gone("close the device", err)
	}
	_, err = l.ctx.NextEvent(ctx)
	if !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("an event after Close: %v", err)
	}
	nothingLeft(t, files, goroutines)
}

// nothingLeft checks that there are no more descriptors and goroutines than before. Goroutines may need a moment to end.
func nothingLeft(t *testing.T, files, goroutines int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines before, %d after", goroutines, now)
	}
	const poller = 2 // descriptors that the runtime keeps
	if now := len(must(os.ReadDir("/proc/self/fd"))(t)); now > files+poller {
		t.Errorf("%d descriptors before, %d after", files, now)
	}
}

// calls checks all that needs the kernel.
func (l *lost) calls(post func(uint64) error) {
	l.t.Helper()
	try := func(what string, err error) { l.t.Helper(); l.gone(what, err) }
	_, err := l.ctx.AllocPD()
	try("make a domain", err)
	_, err = l.ctx.CreateChannel()
	try("make a channel", err)
	_, err = l.ctx.CreateCQ(4, nil)
	try("make a completion queue", err)
	_, err = l.ctx.QueryDevice()
	try("query the device", err)
	_, err = l.ctx.QueryPort(1)
	try("query the port", err)
	_, err = l.pd.Register(make([]byte, 8), verbs.LocalWrite)
	try("register", err)
	_, err = l.pd.AllocMW(verbs.MWType1)
	try("make a window", err)
	_, err = l.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 4})
	try("make a shared receive queue", err)
	_, err = l.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: l.other})
	try("make a queue pair", err)
	_, err = l.pd.CreateAH(verbs.AHAttr{GID: netip.MustParseAddr("::ffff:10.0.0.1"), Port: 1})
	try("make an address handle", err)
	try("change a region", l.mr.SetAccess(verbs.LocalWrite))
	_, err = l.a.State()
	try("query a pair", err)
	try("modify a pair", l.a.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState))
	try("set a limit", l.srq.SetLimit(1))
	try("resize", l.other.Resize(128))
	try("ask for an event", l.cq.Notify(false))
	for id := range uint64(3) { // a full queue, or a state, would be the wrong reason
		try("post", post(id))
		try("post a receive", l.a.Recv(id, l.mr.SGE(0, 8)))
		try("post a shared receive", l.srq.Recv(id, l.mr.SGE(0, 8)))
	}
}

// closes checks that everything can be closed, whatever the kernel answers, and is of no more use then.
func (l *lost) closes() {
	l.t.Helper()
	for _, c := range []interface{ Close() error }{l.a, l.b, l.srq, l.mr, l.cq, l.other, l.ch, l.pd} {
		if err := c.Close(); err != nil {
			l.gone("close", err)
		}
		if err := c.Close(); err != nil {
			l.t.Errorf("a second Close: %v", err)
		}
	}
	if _, err := l.other.Poll(make([]verbs.WC, 1)); !errors.Is(err, verbs.ErrClosed) {
		l.t.Errorf("poll after Close: %v", err)
	}
}
