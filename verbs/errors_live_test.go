//go:build linux

package verbs_test

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// failing makes a request fail and checks that its completion contains the reason, that the pair is in the state ERR, and that
// later requests are flushed.
func failing(t *testing.T, want []verbs.Status, p verbs.Params, post func(r *rig, a, b *verbs.QP)) {
	t.Helper()
	r := newRig(t)
	cfg := verbs.QPConfig{Type: verbs.RC}
	a, b := r.qp(cfg), r.qp(cfg)
	r.connect(a, b, p)
	post(r, a, b)
	must(t, a.Ring())
	c := r.poll(r.cq, 1)[1]
	err := c.Err()
	var ce *verbs.CompletionError
	if !slices.Contains(want, c.Status) || !errors.Is(err, c.Status) || !errors.As(err, &ce) || ce.QPN != a.Num() || ce.ID != 1 {
		t.Fatalf("got %v, want %v", err, want)
	}
	if s, err := a.State(); err != nil || s != verbs.StateErr {
		t.Errorf("state %v, %v", s, err)
	}
	must(t, a.Write(2, verbs.Signaled, r.mr.Remote(0), r.mr.SGE(0, 8)))
	must(t, a.Ring())
	if c := r.poll(r.cq, 1)[2]; c.Status != verbs.StatusFlushed {
		t.Errorf("a request posted after the error: %v", c.Status)
	}
}

func TestLiveRemoteAccess(t *testing.T) {
	for name, to := range map[string]func(verbs.Remote) verbs.Remote{
		"key":   func(m verbs.Remote) verbs.Remote { return verbs.Remote{Addr: m.Addr, RKey: m.RKey + 1} },
		"range": func(m verbs.Remote) verbs.Remote { return verbs.Remote{Addr: m.Addr + rigBytes - 7, RKey: m.RKey} },
	} {
		t.Run(name, func(t *testing.T) {
			failing(t, []verbs.Status{verbs.StatusRemoteAccess}, verbs.DefaultParams(), func(r *rig, a, b *verbs.QP) {
				must(t, a.Write(1, 0, to(r.mr.Remote(0)), r.mr.SGE(0, 8)))
			})
		})
	}
	t.Run("rights", func(t *testing.T) {
		failing(t, []verbs.Status{verbs.StatusRemoteAccess}, verbs.DefaultParams(), func(r *rig, a, b *verbs.QP) {
			ro, err := r.pd.Register(make([]byte, 100), verbs.RemoteRead)
			must(t, err)
			must(t, a.Write(1, 0, ro.Remote(0), r.mr.SGE(0, 8)))
		})
	})
}

// rxe does not distinguish a wrong local key from other mistakes.
func TestLiveLocalProtection(t *testing.T) {
	either := []verbs.Status{verbs.StatusLocalProtection, verbs.StatusLocalQPOperation}
	failing(t, either, verbs.DefaultParams(), func(r *rig, a, b *verbs.QP) {
		must(t, a.Write(1, 0, r.mr.Remote(0), verbs.SGE{Addr: r.mr.SGE(0, 0).Addr, Len: 8, LKey: r.mr.LKey() + 1}))
	})
}

func TestLiveReceiverNotReady(t *testing.T) {
	p := verbs.DefaultParams()
	p.RNRRetry, p.MinRNRTimer = 1, 1
	failing(t, []verbs.Status{verbs.StatusRNRRetryExceeded}, p, func(r *rig, a, b *verbs.QP) {
		must(t, a.Send(1, 0, r.mr.SGE(0, 8)))
	})
}

func TestLiveNoAnswer(t *testing.T) {
	p := verbs.DefaultParams()
	p.Timeout, p.RetryCount = 8, 1
	failing(t, []verbs.Status{verbs.StatusRetryExceeded}, p, func(r *rig, a, b *verbs.QP) {
		must(t, b.Close())
		must(t, a.Send(1, 0, r.mr.SGE(0, 8)))
	})
}

// TestLiveMessageTooLong sends a message that is longer than the receive: both sides fail.
func TestLiveMessageTooLong(t *testing.T) {
	r := newRig(t)
	a, b := r.pair(verbs.QPConfig{Type: verbs.RC})
	must(t, b.Recv(1, r.mr.SGE(0, 4)))
	must(t, a.Send(2, verbs.Signaled, r.mr.SGE(0, 8)))
	must(t, a.Ring())
	got := r.poll(r.cq, 2)
	// rxe reports a failed operation where the standard requires a length error.
	if s := got[1].Status; s != verbs.StatusLocalLength && s != verbs.StatusLocalQPOperation {
		t.Errorf("receiver %v", s)
	}
	if s := got[2].Status; s != verbs.StatusRemoteInvalid && s != verbs.StatusRemoteOperation {
		t.Errorf("sender %v", s)
	}
}

func TestLiveFullQueues(t *testing.T) {
	r := newRig(t)
	a, b := r.pair(verbs.QPConfig{Type: verbs.RC, MaxSend: 4, MaxRecv: 4})
	most := a.Cap().MaxSend
	for i := range most {
		must(t, a.Write(uint64(i), verbs.Signaled, r.mr.Remote(1000), r.mr.SGE(0, 8)))
	}
	err := a.Write(99, verbs.Signaled, r.mr.Remote(1000), r.mr.SGE(0, 8))
	var e *verbs.Error
	if !errors.Is(err, verbs.ErrFull) || !errors.As(err, &e) || e.QPN != a.Num() || e.ID != 99 {
		t.Errorf("one request more than %d: %v", most, err)
	}
	must(t, a.Ring())
	r.done(most)
	must(t, a.Write(100, verbs.Signaled, r.mr.Remote(1000), r.mr.SGE(0, 8)))
	must(t, a.Ring())
	r.done(1)
	for i := range b.Cap().MaxRecv {
		must(t, b.Recv(uint64(i), r.mr.SGE(0, 8)))
	}
	if err := b.Recv(99, r.mr.SGE(0, 8)); !errors.Is(err, verbs.ErrFull) {
		t.Errorf("one receive more: %v", err)
	}
}

// TestLiveWrongState posts and modifies in states that forbid it.
func TestLiveWrongState(t *testing.T) {
	r := newRig(t)
	q := r.qp(verbs.QPConfig{Type: verbs.RC})
	err := q.Send(7, 0, r.mr.SGE(0, 8))
	if !errors.Is(err, verbs.ErrState) || !strings.Contains(err.Error(), "request 7") {
		t.Errorf("a send in INIT: %v", err)
	}
	must(t, q.Recv(1, r.mr.SGE(0, 8)))
	err = q.Modify(verbs.Attr{State: verbs.StateRTS}, verbs.AttrState)
	if !errors.Is(err, verbs.ErrState) || !strings.Contains(err.Error(), "cannot change from INIT to RTS") {
		t.Errorf("INIT to RTS: %v", err)
	}
	err = q.Modify(verbs.Attr{State: verbs.StateRTR}, verbs.AttrState|verbs.AttrMTU|verbs.AttrDestQPN|verbs.AttrRQPSN|
		verbs.AttrMaxDestRDAtomic|verbs.AttrMinRNRTimer|verbs.AttrTimeout)
	if !errors.Is(err, verbs.ErrState) || !strings.Contains(err.Error(), "missing AH, and the transition does not allow Timeout") {
		t.Errorf("INIT to RTR without an address: %v", err)
	}
	must(t, q.Modify(verbs.Attr{State: verbs.StateReset}, verbs.AttrState))
	if err := q.Recv(8, r.mr.SGE(0, 8)); !errors.Is(err, verbs.ErrState) {
		t.Errorf("a receive in RESET: %v", err)
	}
}

// TestLiveReset uses a pair again after RESET, with requests left over from before.
func TestLiveReset(t *testing.T) {
	r := newRig(t)
	a, b := r.pair(verbs.QPConfig{Type: verbs.RC})
	must(t, a.Write(1, verbs.Signaled, r.mr.Remote(1000), r.mr.SGE(0, 8)))
	must(t, b.Recv(2, r.mr.SGE(0, 8)))
	for _, q := range []*verbs.QP{a, b} {
		must(t, q.Modify(verbs.Attr{State: verbs.StateReset}, verbs.AttrState))
		must(t, q.Modify(verbs.Attr{State: verbs.StateInit, Port: 1, Access: all &^ verbs.BindMW},
			verbs.AttrState|verbs.AttrPort|verbs.AttrPKeyIndex|verbs.AttrAccess))
	}
	r.connect(a, b, verbs.DefaultParams())
	must(t, b.Recv(3, r.mr.SGE(1000, 8)))
	must(t, a.Send(4, verbs.Signaled, r.mr.SGE(0, 8)))
	must(t, a.Ring())
	got := r.done(2)
	if _, ok := got[3]; !ok || len(got) != 2 {
		t.Errorf("completions %+v", got)
	}
}

func TestLiveFlush(t *testing.T) {
	r := newRig(t)
	_, b := r.pair(verbs.QPConfig{Type: verbs.RC})
	for i := range 10 {
		must(t, b.Recv(uint64(i), r.mr.SGE(0, 8)))
	}
	must(t, b.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState))
	for id, c := range r.poll(r.cq, 10) {
		if c.Status != verbs.StatusFlushed {
			t.Errorf("receive %d: %v", id, c.Status)
		}
	}
}

func TestLiveWrongAddress(t *testing.T) {
	r := newRig(t)
	_, err := r.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: r.cq, MaxSend: 1 << 30})
	if !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a huge queue: %v", err)
	}
	q := r.qp(verbs.QPConfig{Type: verbs.RC, GID: netip.MustParseAddr("192.0.2.77")})
	if _, err := q.Address(); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "192.0.2.77") {
		t.Errorf("a GID of another port: %v", err)
	}
	q = r.qp(verbs.QPConfig{Type: verbs.RC})
	peer := r.address(q)
	p := verbs.DefaultParams()
	p.MTU = verbs.MTU4096
	if peer.MTU == verbs.MTU4096 {
		t.Fatal("the guest's MTU is not that of Ethernet")
	}
	if err := q.ConnectWith(peer, p); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "4096") {
		t.Errorf("an MTU that is too large: %v", err)
	}
	peer.GID = netip.MustParseAddr("fd00::1")
	if err := q.Connect(peer); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a peer of another family: %v", err)
	}
	if s, err := q.State(); err != nil || s != verbs.StateInit {
		t.Errorf("state %v, %v", s, err)
	}
}

// TestLiveOverrun completes more requests than the queue can hold.
func TestLiveOverrun(t *testing.T) {
	r := newRig(t)
	ch, err := r.dev.CreateChannel()
	must(t, err)
	small, err := r.dev.CreateCQ(2, ch)
	must(t, err)
	a, _ := r.pair(verbs.QPConfig{Type: verbs.RC, SendCQ: small, RecvCQ: r.cq})
	for i := range small.Len() + 1 {
		must(t, a.Write(uint64(i), verbs.Signaled, r.mr.Remote(1000), r.mr.SGE(0, 8)))
	}
	must(t, a.Ring())
	ev, err := r.dev.NextEvent(waittest.Context(t))
	if err != nil || ev.Type != verbs.EventCQError || ev.CQ != small {
		t.Fatalf("%v, %v", ev, err)
	}
	if n, err := small.Poll(make([]verbs.WC, 16)); n != 0 || !errors.Is(err, verbs.ErrOverrun) {
		t.Errorf("poll: %d, %v", n, err)
	}
	if n, err := small.Wait(waittest.Context(t), make([]verbs.WC, 16)); n != 0 || !errors.Is(err, verbs.ErrOverrun) {
		t.Errorf("wait: %d, %v", n, err)
	}
}

func TestLiveNotSupported(t *testing.T) {
	r := newRig(t)
	if _, err := r.pd.Register(make([]byte, 8), verbs.RemoteWrite); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("remote without local write: %v", err)
	}
	key := r.mr.LKey()
	switch err := r.mr.SetAccess(verbs.LocalWrite); {
	case err == nil: // Linux 6.3 and later
	case !errors.Is(err, verbs.ErrNotSupported) || r.mr.LKey() != key:
		t.Errorf("re-registration: %v", err)
	}
	if _, err := verbs.Open("none0", verbs.Options{}); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("a device that does not exist: %v", err)
	}
	if _, err := verbs.Open("", verbs.Options{Provider: "other"}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a provider that does not exist: %v", err)
	}
}

// TestLiveMemlock runs itself again as a user to whom the limit applies.
func TestLiveMemlock(t *testing.T) {
	const child = "VERBS_TEST_MEMLOCK"
	device := live.Device(t)
	if os.Getenv(child) == "" {
		var old unix.Rlimit
		must(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old))
		must(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: old.Max}))
		defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old)
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestLiveMemlock$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("as nobody: %v\n%s", err, out)
		}
		return
	}
	dev, err := verbs.Open(device, verbs.Options{Provider: "rxe"})
	must(t, err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	must(t, err)
	_, err = pd.Register(make([]byte, 1<<20), verbs.LocalWrite)
	if !errors.Is(err, verbs.ErrMemlock) || !errors.Is(err, syscall.ENOMEM) {
		t.Fatalf("a megabyte with a limit of 64 KiB: %v", err)
	}
	for _, part := range []string{"65536", "ulimit -l", device} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not contain %q", err, part)
		}
	}
}
