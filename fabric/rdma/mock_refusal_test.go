//go:build linux && !static && (amd64 || arm64)

package rdma

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
)

// mockRefusal is a call that the mock refuses once, and when.
type mockRefusal struct {
	call  string
	skip  uint32 // calls before it that succeed
	errno syscall.Errno
	phase refusalPhase
}

type refusalPhase string

const (
	whileOpening      refusalPhase = "while the peers open the device and connect"
	whileConnected    refusalPhase = "while they are connected"
	whileReconnecting refusalPhase = "while they connect again"
)

func (r mockRefusal) String() string {
	reason := "no reason"
	if r.errno != ibvmock.NoReason {
		reason = r.errno.Error()
	}
	return fmt.Sprintf("%s refused after %d others %s with %s", r.call, r.skip, r.phase, reason)
}

// mockRefusals returns those of calls that are made: it runs the peers once for each phase, without a refusal, and counts the
// calls from the beginning of the phase.
func mockRefusals(t *testing.T, lib *ibvmock.Library, network mockNetwork) (all []mockRefusal) {
	t.Helper()
	errnos := append(ibvmock.Errnos(), ibvmock.NoReason)
	functions := lib.Functions()
	for _, phase := range []refusalPhase{whileOpening, whileConnected, whileReconnecting} {
		x := &refusedPeers{T: t, lib: lib, network: network, refusal: mockRefusal{phase: phase}}
		x.run()
		if x.failed != nil {
			t.Fatalf("nothing is refused: %v", x.failed)
		}
		for _, call := range functions {
			for turn, skip := range []uint32{0, 1, 4} {
				if lib.Calls(call)-x.before[call] <= uint64(skip) {
					continue
				}
				for k, errno := range errnos {
					if skip > 0 && k%3 != turn { // a later call with a third of the errors
						continue
					}
					all = append(all, mockRefusal{call, skip, errno, phase})
				}
			}
		}
	}
	return all
}

// calledByGoroutine are the functions that goroutines of the domain call, not Poll. When they do depends on
// timing, so a refusal may come too late.
var calledByGoroutine = []string{"ibv_req_notify_cq", "ibv_get_cq_event", "ibv_get_async_event"}

// TestMockRefusals refuses each call of libibverbs, with each reason, when two peers open the device and connect, when they are
// connected, and when their connection has broken. Then all messages and transfers arrive once, or there is an error with a
// type. Nothing hangs, and nothing stays open or registered. With IBRUN_SOAK=1 all combinations are tried, else some.
func TestMockRefusals(t *testing.T) {
	lib := ibvmock.Load(t)
	network := mockNetwork{lib.NewDevice("mlx5_roce")}
	lib.Set("speed", 64)
	all := mockRefusals(t, lib, network)
	if !soaktest.On() {
		seed := soaktest.Seed(t)
		r := mathrand.New(mathrand.NewPCG(seed, 1))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:30]
	}
	for _, r := range all {
		x := &refusedPeers{T: t, lib: lib, network: network, refusal: r}
		x.run()
		refused := lib.Calls(r.call)-x.before[r.call] > uint64(r.skip)
		if !refused && !slices.Contains(calledByGoroutine, r.call) {
			t.Errorf("%v: it was not called", r)
		}
		t.Logf("%v: %v", r, x.failed)
		if t.Failed() {
			return
		}
	}
}

// refusedPeers are two peers that exchange messages while a call is refused.
type refusedPeers struct {
	*testing.T
	lib     *ibvmock.Library
	network mockNetwork
	refusal mockRefusal
	before  map[string]uint64 // how often each function was called before the phase of the refusal
	ds      []*domain
	failed  error // why the exchange has ended
}

func (x *refusedPeers) run() {
	x.Helper()
	pinned, pairs := x.lib.Get("pinned"), x.lib.Get("queue_pairs")
	if x.refusal.phase == whileOpening {
		x.begin()
	}
	x.open()
	x.exchange("first message")
	if x.failed == nil && x.refusal.phase != whileOpening {
		x.begin()
	}
	if x.failed == nil && x.refusal.phase == whileReconnecting {
		x.lib.BreakQP(x.ds[0].eps[1].lanes.Queues[0].QP.Num())
	}
	x.exchange("second message")
	for _, d := range x.ds {
		if err := d.Close(); err != nil {
			x.checkType("close", err)
		}
	}
	if x.refusal.call != "" {
		x.lib.Refuse(x.refusal.call, 0, 0, 0)
	}
	// What a refused call does not release stays.
	for _, call := range []string{"destroy", "dealloc", "dereg", "close"} {
		if strings.Contains(x.refusal.call, call) {
			return
		}
	}
	if p, q := x.lib.Get("pinned"), x.lib.Get("queue_pairs"); p != pinned || q != pairs {
		x.Errorf("%v: %d bytes stay registered and %d queue pairs open; %v", x.refusal, p-pinned, q-pairs, x.failed)
	}
}

// begin begins the phase of the refusal.
func (x *refusedPeers) begin() {
	x.before = map[string]uint64{}
	for _, call := range x.lib.Functions() {
		x.before[call] = x.lib.Calls(call)
	}
	if r := x.refusal; r.call != "" {
		x.lib.Refuse(r.call, r.skip, 1, r.errno)
	}
}

// checkType fails the test if an error has no type that callers can act on. An errno that means nothing else is its own kind.
func (x *refusedPeers) checkType(what string, err error) {
	x.Helper()
	var v *verbs.Error
	var d *DeviceError
	typed := errors.As(err, &v) && (v.Kind != nil || errors.Is(err, x.refusal.errno)) || errors.As(err, &d) ||
		errors.Is(err, fabric.ErrNotSupported) || errors.Is(err, fabric.ErrPeerDown)
	if !typed {
		x.Errorf("%v: %s: %v", x.refusal, what, err)
	}
}

func (x *refusedPeers) fail(what string, err error) {
	x.Helper()
	x.checkType(what, err)
	x.failed = fmt.Errorf("%s: %w", what, err)
}

func (x *refusedPeers) open() {
	x.Helper()
	var key [32]byte
	rand.Read(key[:])
	for i := range 2 {
		tr := &Transport{Network: x.network, Settings: Settings{Heartbeat: 20 * time.Second}}
		tr.Key = key
		d, err := tr.Open(x.Context(), &fabric.Config{Self: i, Size: 2})
		if err != nil {
			x.fail("open", err)
			return
		}
		x.ds = append(x.ds, d.(*domain))
	}
	for i, d := range x.ds {
		if _, err := d.Connect(1-i, x.ds[1-i].Addr()); err != nil {
			x.fail("connect", err)
			return
		}
	}
}

// poll polls both peers once, and returns the events of kinds other than PeerDown. The bytes of messages are copied.
func (x *refusedPeers) poll() (got [2][]fabric.Event) {
	x.Helper()
	for i, d := range x.ds {
		evs := make([]fabric.Event, 16)
		n, err := d.Poll(evs)
		if err != nil {
			x.fail("poll", err)
			return got
		}
		for _, ev := range evs[:n] {
			if ev.Kind == fabric.PeerDown {
				x.fail("peer", ev.Err)
				return got
			}
			ev.Data = bytes.Clone(ev.Data)
			got[i] = append(got[i], ev)
		}
	}
	runtime.Gosched()
	return got
}

// exchange sends a message from each peer to the other, and reads memory of the second peer, until all has arrived or failed.
// It does nothing if something has failed before.
func (x *refusedPeers) exchange(text string) {
	x.Helper()
	if x.failed != nil {
		return
	}
	src, dst := bytes.Repeat([]byte(text), 10000), make([]byte, 10000*len(text))
	far, err := x.ds[1].Register(src)
	if err != nil {
		x.checkType("register", err)
		return
	}
	near, err := x.ds[0].Register(dst)
	if err != nil {
		x.checkType("register", err)
		x.deregister(x.ds[1], far)
		return
	}
	x.exchangeWith(text, src, dst, near, far)
	x.deregister(x.ds[0], near)
	x.deregister(x.ds[1], far)
}

// exchangeWith is exchange with registered memory.
func (x *refusedPeers) exchangeWith(text string, src, dst []byte, near, far fabric.Region) {
	x.Helper()
	sent, arrived, reading, read := [2]bool{}, [2]int{}, false, false
	defer waittest.LogIfFailed(x.T, func() string {
		return fmt.Sprintf("sent %v, arrived %v, read %v; %+v, %+v", sent, arrived, read, x.ds[0].eps[1], x.ds[1].eps[0])
	})
	waittest.Poll(x, fmt.Sprintf("%v: everything arrives, or fails", x.refusal), func() bool {
		for i, d := range x.ds {
			if !sent[i] {
				switch err := d.eps[1-i].Send([]byte(text), nil); {
				case err == nil:
					sent[i] = true
				case err != fabric.ErrAgain:
					x.fail("send", err)
				}
			}
		}
		if x.failed == nil && arrived == [2]int{1, 1} && !reading {
			done, err := x.ds[0].eps[1].Read(dst, near, far.Remote, 7)
			if err != nil && err != fabric.ErrAgain {
				x.fail("read", err)
			}
			reading, read = err == nil, done
		}
		if x.failed != nil {
			return true
		}
		for i, evs := range x.poll() {
			for _, ev := range evs {
				switch {
				case ev.Kind == fabric.Done && ev.Err != nil:
					x.fail("read", ev.Err)
				case ev.Kind == fabric.Done:
					read = true
				case string(ev.Data) == text:
					arrived[i]++
				default:
					x.Errorf("%v: a message %q", x.refusal, ev.Data)
				}
			}
		}
		return x.failed != nil || arrived == [2]int{1, 1} && read
	})
	if x.failed == nil && (arrived != [2]int{1, 1} || !bytes.Equal(src, dst)) {
		x.Errorf("%v: %v messages have arrived, or the memory is wrong", x.refusal, arrived)
	}
}

func (x *refusedPeers) deregister(d *domain, r fabric.Region) {
	x.Helper()
	if err := d.Deregister(r); err != nil {
		x.checkType("deregister", err)
	}
}

// TestMockPortDownAtStart opens a device whose link is down: the error names the port, so TCP is taken. When the link is up, the
// next Open uses the device.
func TestMockPortDownAtStart(t *testing.T) {
	lib := ibvmock.Load(t)
	dev := lib.NewDevice("mlx5_ib")
	tr := &Transport{Network: mockNetwork{dev}}
	rand.Read(tr.Key[:])
	lib.SetPortState(dev.Name, false)
	tr.Network = mockNetwork{lib.Device(dev.Name, "mlx5_ib")}
	_, err := tr.Open(t.Context(), &fabric.Config{Size: 1})
	if !errors.Is(err, fabric.ErrNotSupported) ||
		!strings.Contains(err.Error(), dev.Name) || !strings.Contains(err.Error(), "port") {
		t.Errorf("the link is down: %v", err)
	}
	lib.SetPortState(dev.Name, true)
	tr.Network = mockNetwork{lib.Device(dev.Name, "mlx5_ib")}
	d, err := tr.Open(t.Context(), &fabric.Config{Size: 1})
	if err != nil {
		t.Fatalf("the link is up: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
