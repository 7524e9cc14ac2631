package tcp

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/hook"
)

// through makes peers in this process that reach each other through the given interface. A small window makes the kernel take
// messages in parts, and is filled soon.
func through(rule string, window int) fabrictest.Peers {
	return func(_ testing.TB, n int) []fabric.Transport {
		tr := &Transport{Interfaces: []string{rule}, Linger: 50 * time.Millisecond, window: window}
		rand.Read(tr.Key[:])
		return slices.Repeat([]fabric.Transport{tr}, n)
	}
}

func TestConformance(t *testing.T) { fabrictest.Run(t, through("127.0.0.1/32", 64<<10)) }

// TestHook: the rules hold over IPv6 as well, and whatever chance does to timing.
func TestHook(t *testing.T) {
	fabrictest.Rules(t, func(tb testing.TB, n int) []fabric.Transport {
		ts := through("::1/128", 64<<10)(tb, n)
		for i := range ts {
			ts[i] = hook.Wrap(ts[i], hook.Options{Log: tb.Logf, Again: 0.1, Delay: 0.1, Mix: 0.1, Late: 0.1, Poison: true})
		}
		return ts
	})
}

func BenchmarkTCP(b *testing.B) { fabrictest.Bench(b, through("127.0.0.1/32", 0)) }

// TestLimits: a limit that no message could hold is an error, and those that are set are what domain and endpoint say.
func TestLimits(t *testing.T) {
	for _, wrong := range []Transport{{Eager: -1}, {Eager: maxEager + 1}, {Push: -1}, {Push: PushBytes + 1}} {
		wrong.Interfaces = []string{"lo"}
		if _, err := wrong.Open(t.Context(), &fabric.Config{Size: 1}); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
	}
	for _, c := range []struct{ eager, push, wantEager, wantPush int }{
		{0, 0, maxEager, PushBytes}, {1000, 5000, 1000, 5000}, {5000, 5000, 5000, 0}, {0, 1, maxEager, 0},
	} {
		tr := &Transport{Eager: c.eager, Push: c.push, Interfaces: []string{"lo"}}
		d, err := tr.Open(t.Context(), &fabric.Config{Size: 1})
		if err != nil {
			t.Fatal(err)
		}
		ep, err := d.Connect(0, d.Addr())
		if caps := d.Caps(); err != nil || ep.Stream() != 0 || caps.Eager != c.wantEager || caps.MaxSend != maxSend ||
			tr.Pushes() != c.wantPush {
			t.Errorf("%+v: %+v, %v", c, caps, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHome: connections within the machine have a sender's buffer of the fixed size, where the kernel allows it, and a receiver's
// that can grow, so that nothing which comes is dropped. And acknowledgements can be asked for.
func TestHome(t *testing.T) {
	const receiving = 2 // of SO_BUF_LOCK
	_, es := pair(t)
	for _, ep := range es {
		fd := ep.(*endpoint).fd
		if !within(fd) {
			t.Error("a connection over loopback is taken for one with another machine")
		}
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
		if err != nil || homeFits() != (got == 2*home) {
			t.Errorf("the sender's buffer has %d bytes (%v), and that %d fit is %v", got, err, home, homeFits())
		}
		fixed, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BUF_LOCK)
		if err != unix.ENOPROTOOPT && (err != nil || fixed&receiving != 0) { // which is of Linux 5.14
			t.Errorf("fixed buffers: %d, %v", fixed, err)
		}
		quicken(fd)
		if on, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK); err != nil || on != 1 {
			t.Errorf("acknowledgements at once: %d, %v", on, err)
		}
	}
	here, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(here)
	if within(here) {
		t.Error("a socket without a peer is taken for a connection within the machine")
	}
}
