package tcp

import (
	"crypto/rand"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/hook"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// pollUntilDone calls done, which polls, until it returns true. If the test fails meanwhile, it also logs what state returns.
func pollUntilDone(t *testing.T, what string, state func() string, done func() bool) {
	t.Helper()
	defer waittest.LogIfFailed(t, state)
	waittest.Poll(t, what, done)
}

// overInterface returns peers in this process that reach each other through the given interface. A small socket buffer makes the
// kernel fragment messages, and fills up soon.
func overInterface(rule string, socketBuffer int) fabrictest.Peers {
	return func(_ testing.TB, n int) []fabric.Transport {
		tr := &Transport{Interfaces: []string{rule}, Linger: waittest.Limit, socketBuffer: socketBuffer}
		rand.Read(tr.Key[:])
		return slices.Repeat([]fabric.Transport{tr}, n)
	}
}

// encrypted returns the same peers with encryption.
func encrypted(peers fabrictest.Peers) fabrictest.Peers {
	return func(tb testing.TB, n int) []fabric.Transport {
		ts := peers(tb, n)
		ts[0].(*Transport).Encrypt = true // all are the same
		return ts
	}
}

// TestEncrypted: the rules of a fabric also hold with encryption, over buffers that are always full.
func TestEncrypted(t *testing.T) {
	fabrictest.Rules(t, encrypted(overInterface("127.0.0.1/32", 64<<10)))
}

// TestConformance runs the suite with checksums. By default, connections within this machine have none.
func TestConformance(t *testing.T) {
	fabrictest.Run(t, func(tb testing.TB, n int) []fabric.Transport {
		ts := overInterface("127.0.0.1/32", 64<<10)(tb, n)
		ts[0].(*Transport).checkLocal = true // all are the same
		return ts
	})
}

// TestHook: the rules of a fabric also hold over IPv6, if the machine has it, and with random delays and failures.
func TestHook(t *testing.T) {
	rule := "::1/128"
	if l, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Logf("over IPv4: %v", err)
		rule = "127.0.0.1/32"
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	fabrictest.Rules(t, func(tb testing.TB, n int) []fabric.Transport {
		ts := overInterface(rule, 64<<10)(tb, n)
		o := hook.Options{Seed: soaktest.Seed(tb), Again: 0.1, Delay: 0.1, Interleave: 0.1, Async: 0.1, Poison: true}
		for i := range ts {
			ts[i] = hook.Wrap(ts[i], o)
		}
		return ts
	})
}

func BenchmarkTCP(b *testing.B) { fabrictest.Bench(b, overInterface("127.0.0.1/32", 0)) }

func BenchmarkEncrypted(b *testing.B) {
	fabrictest.Bench(b, encrypted(overInterface("127.0.0.1/32", 0)))
}

// TestTransportLimits: a limit beyond what a message holds is an error, and valid limits are those of domain and endpoint.
func TestTransportLimits(t *testing.T) {
	for _, wrong := range []Transport{{Eager: -1}, {Eager: maxEager + 1}, {Push: -1}, {Push: PushBytes + 1}} {
		wrong.Interfaces = []string{"lo"}
		if _, err := wrong.Open(t.Context(), &fabric.Config{Size: 1}); err == nil {
			t.Errorf("%+v was accepted", wrong)
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
		_, err = d.Connect(0, d.Addr())
		if caps := d.Caps(); err != nil || caps.Stream != 0 || caps.Eager != c.wantEager || caps.MaxSend != maxSend ||
			tr.MaxPush() != c.wantPush {
			t.Errorf("%+v: %+v, %v", c, caps, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLocalConnection: connections within the machine have a send buffer of the fixed size, where the kernel allows it, and a
// receive buffer that can grow, so that the kernel drops nothing. They have the congestion control of such connections, where it
// is allowed. Immediate acknowledgements can be requested.
func TestLocalConnection(t *testing.T) {
	const receiving = 2 // of SO_BUF_LOCK
	allowed, err := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
	if err != nil {
		t.Logf("the congestion control is not checked: %v", err)
	}
	_, es := pair(t)
	for _, ep := range es {
		e := ep.(*endpoint)
		e.d.mu.Lock() // the timer of progress closes it after the test
		fd := e.stream.fd
		e.d.mu.Unlock()
		if !sameHost(fd) {
			t.Error("sameHost is false for a connection over loopback")
		}
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
		if err != nil || localSendBufferAllowed() != (got == 2*localSendBuffer) {
			t.Errorf("the send buffer has %d bytes (%v); %d are allowed: %v", got, err, localSendBuffer, localSendBufferAllowed())
		}
		fixed, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BUF_LOCK)
		if err != unix.ENOPROTOOPT && (err != nil || fixed&receiving != 0) { // SO_BUF_LOCK exists since Linux 5.14
			t.Errorf("fixed buffers: %d, %v", fixed, err)
		}
		control, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		if err != nil || control != localCongestionControl &&
			slices.Contains(strings.Fields(string(allowed)), localCongestionControl) {
			t.Errorf("the congestion control is %s (%v); allowed are %s", control, err, allowed)
		}
		requestQuickAck(fd)
		if on, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK); err != nil || on != 1 {
			t.Errorf("TCP_QUICKACK: %d, %v", on, err)
		}
	}
	here, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(here)
	if sameHost(here) {
		t.Error("sameHost is true for a socket without a peer")
	}
}
