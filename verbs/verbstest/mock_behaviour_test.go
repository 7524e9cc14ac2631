//go:build linux && !static && (amd64 || arm64)

package verbstest_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// setUp opens a device and connects a queue pair to itself, with one object of each kind.
func setUp(lib *ibvmock.Library, device string) (err error) {
	ctx, err := verbstest.OpenLibrary(lib.Device(device, "mlx5_roce"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ctx.Close()) }()
	pd, err := ctx.AllocPD()
	if err != nil {
		return err
	}
	if _, err := pd.Register(make([]byte, 4096), verbs.LocalWrite); err != nil {
		return err
	}
	ch, err := ctx.CreateChannel()
	if err != nil {
		return err
	}
	cq, err := ctx.CreateCQ(16, ch)
	if err != nil {
		return err
	}
	if err := cq.Notify(false); err != nil {
		return err
	}
	srq, err := pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 4})
	if err != nil {
		return err
	}
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, SRQ: srq})
	if err != nil {
		return err
	}
	to, err := qp.Address()
	if err != nil {
		return err
	}
	return qp.Connect(to)
}

// TestMockRefusals refuses each call of a set-up once, with each of several reasons. The error has the reason and a kind, and
// nothing stays open that was not open before.
func TestMockRefusals(t *testing.T) {
	lib := ibvmock.Load(t)
	dev := lib.NewDevice("mlx5_roce")
	pairs, pinned := lib.Get("queue_pairs"), lib.Get("pinned")
	for _, call := range []string{"ibv_get_device_list", "ibv_open_device", "ibv_query_device", "ibv_query_port", "ibv_alloc_pd",
		"ibv_reg_mr", "ibv_create_comp_channel", "ibv_create_cq", "ibv_req_notify_cq", "ibv_create_srq", "ibv_create_qp",
		"ibv_modify_qp", "ibv_get_async_event"} {
		for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.ENOMEM, syscall.EAGAIN, syscall.EPERM, syscall.EOPNOTSUPP} {
			if call == "ibv_get_async_event" && errno == syscall.EAGAIN {
				continue // there is no event
			}
			before := lib.Calls(call)
			lib.Refuse(call, 0, 1, errno)
			err := setUp(lib, dev.Name)
			var e *verbs.Error
			if !errors.Is(err, errno) || !errors.As(err, &e) || e.Kind == nil || e.Device != dev.Name {
				t.Errorf("%s refused with %v: %v", call, errno, err)
			}
			if lib.Calls(call) == before {
				t.Errorf("%s was not called", call)
			}
			if n, p := lib.Get("queue_pairs"), lib.Get("pinned"); n != pairs || p != pinned {
				t.Fatalf("%s refused with %v: %d queue pairs are left, and %d bytes pinned", call, errno, n-pairs, p-pinned)
			}
		}
	}
	if err := setUp(lib, dev.Name); err != nil {
		t.Errorf("nothing refused: %v", err)
	}
}

// polled polls a completion queue up to n times, and returns how many polls it took until the first completion.
func polled(t *testing.T, cq *verbs.CQ, n int) (polls int, wc verbs.WC) {
	t.Helper()
	wcs := make([]verbs.WC, 1)
	for polls = 1; polls <= n; polls++ {
		got, err := cq.Poll(wcs)
		if err != nil {
			t.Fatal(err)
		}
		if got == 1 {
			return polls, wcs[0]
		}
	}
	return 0, verbs.WC{}
}

// TestMockLate delays completions, those of flushed requests longer.
func TestMockLate(t *testing.T) {
	p := newMockPair(t, "mlx5_roce")
	lib := ibvmock.Load(t)
	write := func(id uint64) {
		t.Helper()
		if err := p.a.WriteInline(id, verbs.Signaled|verbs.RingDoorbell, p.bMR.Remote(0), nil); err != nil {
			t.Fatal(err)
		}
	}
	lib.Set("late", 3)
	lib.Set("flush_late", 6)
	write(1)
	if n, wc := polled(t, p.aCQ, 10); n != 3 || wc.Err() != nil {
		t.Errorf("a completion appears after %d polls, want 3: %v", n, wc.Err())
	}
	lib.Set("hold", 1)
	write(2)
	if n, _ := polled(t, p.aCQ, 10); n != 0 {
		t.Errorf("a held completion appears after %d polls", n)
	}
	lib.Set("hold", 0)
	if n, wc := polled(t, p.aCQ, 1); n != 1 || wc.ID != 2 {
		t.Errorf("the held completion does not appear: %+v", wc)
	}
	lib.BreakQP(p.a.Num())
	write(3)
	if n, wc := polled(t, p.aCQ, 10); n != 6 || wc.Status != verbs.StatusFlushed {
		t.Errorf("a flushed request completes after %d polls, want 6: %v", n, wc.Err())
	}
}

// TestMockDiscards closes a queue pair with completions that were not polled. mlx5 removes them, other devices keep them.
func TestMockDiscards(t *testing.T) {
	for _, discards := range []bool{true, false} {
		p := newMockPair(t, "mlx5_roce")
		lib := ibvmock.Load(t)
		want := 1
		if lib.Set("discards", 0); discards {
			lib.Set("discards", 1)
			want = 0
		}
		if err := p.a.WriteInline(7, verbs.Signaled|verbs.RingDoorbell, p.bMR.Remote(0), nil); err != nil {
			t.Fatal(err)
		}
		if err := p.a.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err := p.aCQ.Poll(p.wcs); n != want || err != nil {
			t.Errorf("discards %v: %d completions, %v; want %d", discards, n, err, want)
		}
	}
}

// TestMockPortDown takes a link down during a transfer, and up again: events are raised, and the transfer goes on.
func TestMockPortDown(t *testing.T) {
	lib := ibvmock.Load(t)
	dev := lib.NewDevice("mlx5_ib")
	params := verbs.DefaultParams()
	params.Timeout = 22 // the link is up again long before the request fails
	p := newMockPairWith(t, dev, params)
	event := func(want verbs.EventType) {
		t.Helper()
		if ev, err := p.ctx.NextEvent(t.Context()); err != nil || ev.Type != want || ev.Port != 1 {
			t.Fatalf("the event is %v, %v; want %v", ev, err, want)
		}
	}
	lib.SetPortState(dev.Name, false)
	event(verbs.EventPortError)
	if err := p.a.WriteInline(1, verbs.Signaled|verbs.RingDoorbell, p.bMR.Remote(0), nil); err != nil {
		t.Fatal(err)
	}
	if n, _ := polled(t, p.aCQ, 3); n != 0 {
		t.Fatal("a request completes although the link is down")
	}
	lib.SetPortState(dev.Name, true)
	event(verbs.EventPortActive)
	if n, wc := polled(t, p.aCQ, 1); n != 1 || wc.Err() != nil {
		t.Errorf("the request does not complete when the link is up again: %v", wc.Err())
	}
	lib.SetLID(dev.Name, 0x99)
	event(verbs.EventLIDChange)
	lib.SetPKey(dev.Name, 1, 0x8077)
	event(verbs.EventPKeyChange)
	if port, err := p.ctx.QueryPort(1); err != nil || port.LID != 0x99 {
		t.Errorf("the port is %+v, %v; want LID 0x99", port, err)
	}
	if key, err := p.ctx.QueryPKey(1, 1); err != nil || key != 0x8077 {
		t.Errorf("the partition key is %#x, %v; want 0x8077", key, err)
	}
	lib.SetLost(dev.Name, true)
	if ev, err := p.ctx.NextEvent(t.Context()); err != nil || ev.Type != verbs.EventDeviceFatal {
		t.Fatalf("the event is %v, %v", ev, err)
	}
	if _, err := p.ctx.QueryPort(1); !errors.Is(err, verbs.ErrDeviceLost) {
		t.Errorf("query a lost device: %v", err)
	}
	lib.SetLost(dev.Name, false)
}

// TestMockEventsUnreadable: a device whose events cannot be read counts as lost. Every call that fails because of that names the
// call of the library that has failed first, and its error.
func TestMockEventsUnreadable(t *testing.T) {
	lib := ibvmock.Load(t)
	dev := lib.NewDevice("mlx5_roce")
	p := newMockPairOn(t, dev)
	pd, ch := must(p.ctx.AllocPD())(t), must(p.ctx.CreateChannel())(t)
	cq := must(p.ctx.CreateCQ(16, ch))(t)
	srq := must(pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 4}))(t)
	lib.Refuse("ibv_get_async_event", 0, ibvmock.Always, syscall.ENOMEM)
	t.Cleanup(func() { lib.Refuse("ibv_get_async_event", 0, 0, 0) })
	lib.SetPortState(dev.Name, false) // raises an event
	if ev, err := p.ctx.NextEvent(t.Context()); err != nil || ev.Type != verbs.EventDeviceFatal {
		t.Fatalf("the event is %v, %v", ev, err)
	}
	sge := p.aMR.SGE(0, 8)
	calls := map[string]func() error{
		"poll":                func() error { _, err := p.aCQ.Poll(p.wcs); return err },
		"wait for a queue":    func() error { _, err := cq.Wait(t.Context(), p.wcs); return err },
		"wait for an event":   func() error { _, err := ch.Wait(t.Context()); return err },
		"take an event":       func() error { _, err := ch.Next(); return err },
		"send":                func() error { return p.a.Send(1, 0, sge) },
		"ring":                p.a.Ring,
		"receive":             func() error { return p.a.Recv(1, sge) },
		"receive a list":      func() error { _, err := p.a.RecvList([]verbs.Receive{{ID: 1, SGE: sge}}); return err },
		"receive from an SRQ": func() error { return srq.Recv(1, sge) },
	}
	for what, call := range calls {
		const why = ": the device was lost: read an asynchronous event: ibv_get_async_event: cannot allocate memory"
		err := call()
		if !errors.Is(err, verbs.ErrDeviceLost) || !errors.Is(err, syscall.ENOMEM) || !strings.HasSuffix(err.Error(), why) {
			t.Errorf("%s: %v; want an error that ends with %q", what, err, why)
		}
	}
}
