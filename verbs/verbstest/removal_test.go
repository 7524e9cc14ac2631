//go:build linux

package verbstest_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/opener"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
	"github.com/ibrun/ibrun/verbs/internal/rxetest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// removedDevice is a device that is removed while it is in use. Every system call fails with EIO then, and the event
// DEVICE_FATAL arrives.
type removedDevice struct {
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

func newRemovedDevice(t *testing.T) *removedDevice {
	k := rxetest.New()
	ctx := must(opener.Open(rxe.On(k), k.Device()))(t)
	t.Cleanup(func() { ctx.Close() })
	l := &removedDevice{t: t, kernel: k, ctx: ctx, pd: must(ctx.AllocPD())(t), ch: must(ctx.CreateChannel())(t)}
	l.cq, l.other = must(ctx.CreateCQ(16, l.ch))(t), must(ctx.CreateCQ(64, nil))(t)
	l.mr = must(l.pd.Register(make([]byte, 4096), verbs.LocalWrite))(t)
	l.srq = must(l.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 8}))(t)
	l.a = must(l.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: l.other}))(t)
	l.b = must(l.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: l.cq}))(t)
	for _, qps := range [][2]*verbs.QP{{l.a, l.b}, {l.b, l.a}} {
		to, err := qps[1].Address()
		if err := errors.Join(err, qps[0].Connect(to)); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// checkLost checks that an error is ErrDeviceLost and names the device.
func (l *removedDevice) checkLost(what string, err error) {
	l.t.Helper()
	var e *verbs.Error
	if !errors.Is(err, verbs.ErrDeviceLost) || !errors.As(err, &e) || e.Device != l.ctx.Name() {
		l.t.Errorf("%s: %v instead of an error that is %v", what, err, verbs.ErrDeviceLost)
	}
}

// After the removal of a device, earlier completions can still be polled. Pending requests never complete, and waits for them
// return an error.
func TestRemoval(t *testing.T) {
	files := len(must(os.ReadDir("/proc/self/fd"))(t))
	goroutines := runtime.NumGoroutine()
	l := newRemovedDevice(t)
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

	ctx := waittest.Context(t)
	waiters := map[string]func() error{
		"a wait for completions": func() error { _, err := l.cq.Wait(ctx, make([]verbs.WC, 1)); return err },
		"a wait for an event":    func() error { _, err := l.ch.Wait(ctx); return err },
	}
	type result struct {
		what string
		err  error
	}
	results := make(chan result)
	for what, wait := range waiters {
		for range 2 {
			go func() { results <- result{what, wait()} }()
		}
	}
	for range 100 {
		runtime.Gosched() // they block meanwhile; the test is correct in any case
	}
	l.kernel.RemoveDevice()
	for range 2 * len(waiters) {
		e := <-results
		l.checkLost(e.what, e.err)
	}
	if ev, err := l.ctx.NextEvent(ctx); err != nil || ev.Type != verbs.EventDeviceFatal {
		t.Errorf("the event is %v: %v", ev, err)
	}

	wcs := make([]verbs.WC, 8)
	n, err := l.other.Poll(wcs)
	if err != nil || n != 2 || wcs[0].ID != 1 || wcs[1].ID != 2 {
		t.Errorf("two requests must have completed: %d, %v", n, err)
	}
	for range 2 {
		_, err = l.other.Poll(wcs)
		l.checkLost("poll", err)
	}
	l.checkCalls(post)
	l.checkCloses()
	if err := l.ctx.Close(); err != nil {
		l.checkLost("close the device", err)
	}
	_, err = l.ctx.NextEvent(ctx)
	if !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("an event after Close: %v", err)
	}
	checkLeaks(t, files, goroutines)
}

// checkLeaks checks that there are no more descriptors and goroutines than before. Goroutines may need some time to end.
func checkLeaks(t *testing.T, files, goroutines int) {
	t.Helper()
	waittest.UntilNil(t, "all goroutines end", func() error {
		if now := runtime.NumGoroutine(); now > goroutines {
			return fmt.Errorf("%d goroutines before, %d after", goroutines, now)
		}
		return nil
	})
	const poller = 2 // descriptors that the runtime keeps
	if now := len(must(os.ReadDir("/proc/self/fd"))(t)); now > files+poller {
		t.Errorf("%d descriptors before, %d after", files, now)
	}
}

// checkCalls checks every function that calls the kernel.
func (l *removedDevice) checkCalls(post func(uint64) error) {
	l.t.Helper()
	check := func(what string, err error) { l.t.Helper(); l.checkLost(what, err) }
	_, err := l.ctx.AllocPD()
	check("make a protection domain", err)
	_, err = l.ctx.CreateChannel()
	check("make a channel", err)
	_, err = l.ctx.CreateCQ(4, nil)
	check("make a completion queue", err)
	_, err = l.ctx.QueryDevice()
	check("query the device", err)
	_, err = l.ctx.QueryPort(1)
	check("query the port", err)
	_, err = l.pd.Register(make([]byte, 8), verbs.LocalWrite)
	check("register", err)
	_, err = l.pd.AllocMW(verbs.MWType1)
	check("make a window", err)
	_, err = l.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 4})
	check("make a shared receive queue", err)
	_, err = l.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: l.other})
	check("make a queue pair", err)
	_, err = l.pd.CreateAH(verbs.AHAttr{GID: netip.MustParseAddr("::ffff:10.0.0.1"), Port: 1})
	check("make an address handle", err)
	check("change a region", l.mr.SetAccess(verbs.LocalWrite))
	_, err = l.a.State()
	check("query a pair", err)
	check("modify a pair", l.a.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState))
	check("set a limit", l.srq.SetLimit(1))
	check("resize", l.other.Resize(128))
	check("request an event", l.cq.Notify(false))
	for id := range uint64(3) { // the reason must not be a full queue or the state
		check("post", post(id))
		check("post a receive", l.a.Recv(id, l.mr.SGE(0, 8)))
		check("post a shared receive", l.srq.Recv(id, l.mr.SGE(0, 8)))
	}
}

// checkCloses checks that every object can be closed although the kernel fails, and cannot be used afterwards.
func (l *removedDevice) checkCloses() {
	l.t.Helper()
	for _, c := range []interface{ Close() error }{l.a, l.b, l.srq, l.mr, l.cq, l.other, l.ch, l.pd} {
		if err := c.Close(); err != nil {
			l.checkLost("close", err)
		}
		if err := c.Close(); err != nil {
			l.t.Errorf("a second Close: %v", err)
		}
	}
	if _, err := l.other.Poll(make([]verbs.WC, 1)); !errors.Is(err, verbs.ErrClosed) {
		l.t.Errorf("poll after Close: %v", err)
	}
}

// TestSimulatedRemoval: calls on a simulated device fail from its removal on, as those of the kernel do, and not only once the
// event is read. What was created is closed without an error.
func TestSimulatedRemoval(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ctx := must(net.Open("a"))(t)
	pd, cq := must(ctx.AllocPD())(t), must(ctx.CreateCQ(16, nil))(t)
	mr := must(pd.Register(make([]byte, 64), verbs.LocalWrite))(t)
	cfg := verbs.QPConfig{Type: verbs.UD, SendCQ: cq}
	qp := must(pd.CreateQP(cfg))(t)
	net.RemoveDevice("a")
	_, created := pd.CreateQP(cfg)
	_, registered := pd.Register(make([]byte, 64), verbs.LocalWrite)
	for what, err := range map[string]error{
		"create a queue pair": created,
		"register memory":     registered,
		"change a queue pair": qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState),
	} {
		if !errors.Is(err, verbs.ErrDeviceLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errors.Join(qp.Close(), mr.Close(), cq.Close(), pd.Close(), ctx.Close()); err != nil {
		t.Error(err)
	}
}
