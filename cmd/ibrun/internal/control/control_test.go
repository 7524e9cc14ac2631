package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/waittest"
)

const (
	// testHeartbeat is how long a side may be silent in tests that wait until it has been silent for longer.
	testHeartbeat = 2 * time.Second
	// longHeartbeat is the same in most other tests: no goroutine is late by so much, however busy the machine is.
	longHeartbeat = time.Minute
)

func testSecret(fill byte) Security {
	return Security{Secret: auth.NewSecret(bytes.Repeat([]byte{fill}, 32))}
}

func testListener(t *testing.T, s Security) *Listener {
	t.Helper()
	return testListenerFor(t, s, longHeartbeat)
}

// testListenerFor returns a listener whose connections may be silent for that time.
func testListenerFor(t *testing.T, s Security, heartbeat time.Duration) *Listener {
	t.Helper()
	l, err := Listen("127.0.0.1:0", s, heartbeat)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// pair returns both ends of a connection between node 0 and node 1 of 2.
func pair(t *testing.T) (zero, one *Conn) {
	t.Helper()
	s := testSecret(1)
	l := testListener(t, s)
	one = dial(t, l, s, 1, 2)
	zero, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		go zero.Close()
		one.Close()
	})
	return zero, one
}

func dial(t *testing.T, l *Listener, s Security, node, nodes int) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), l.Addr().String(), s, node, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMessagesArriveInOrder(t *testing.T) {
	zero, one := pair(t)
	if zero.Node() != 1 || zero.Nodes() != 2 || one.Node() != 1 {
		t.Errorf("nodes %d of %d and %d", zero.Node(), zero.Nodes(), one.Node())
	}
	sizes := []int{0, 1, MaxMessage, 77, 4096}
	for _, dir := range [][2]*Conn{{zero, one}, {one, zero}} {
		for i, n := range sizes {
			if err := dir[0].Send(bytes.Repeat([]byte{byte(i)}, n)); err != nil {
				t.Fatal(err)
			}
		}
		for i, n := range sizes {
			got, err := dir[1].Recv()
			if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, n)) {
				t.Fatalf("message %d: %d bytes, %v; want %d", i, len(got), err, n)
			}
		}
	}
	if err := one.Send(make([]byte, MaxMessage+1)); err == nil {
		t.Error("a message that is too long was accepted")
	}
}

// A message that was sent before Close arrives, also if the other side has sent data that was never read.
// TestListenerCloses checks that a listener may be closed more than once.
func TestListenerCloses(t *testing.T) {
	l, err := Listen("127.0.0.1:0", Security{}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCloseDeliversMessages(t *testing.T) {
	zero, one := pair(t)
	if err := one.Send([]byte("never read")); err != nil {
		t.Fatal(err)
	}
	if err := zero.Send([]byte("last message")); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		zero.CloseWithin(time.Minute)
		close(closed)
	}()
	if got, err := one.Recv(); err != nil || string(got) != "last message" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := one.Recv(); err != io.EOF {
		t.Errorf("after the last message: %v, want io.EOF", err)
	}
	one.Close()
	<-closed
	if _, err := one.Recv(); err == nil {
		t.Error("Recv after the end returned no error")
	}
}

// A side that sends nothing is reported as lost, unless it has called Suspend.
func TestPeerTimeout(t *testing.T) {
	t.Parallel()
	t.Run("broken", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		zero, one, _ := pairOver(t, testHeartbeat, nil)
		one.mu.Lock() // blocks its writeLoop, so that it sends no heartbeat
		defer one.mu.Unlock()
		_, err := zero.Recv()
		if err == nil || !strings.Contains(err.Error(), "no heartbeat for "+testHeartbeat.String()) {
			t.Errorf("%v", err)
		}
		if passed := time.Since(began); passed < testHeartbeat {
			t.Errorf("lost after %v already", passed)
		}
	})
	t.Run("suspended", func(t *testing.T) {
		t.Parallel()
		zero, one, _ := pairOver(t, longHeartbeat, nil)
		go one.Recv()
		one.Suspend()
		// Another goroutine may still send a message before the process stops.
		if err := one.Send([]byte("sent while suspended")); err != nil {
			t.Fatal(err)
		}
		if message, err := zero.Recv(); err != nil || string(message) != "sent while suspended" {
			t.Fatalf("got %q, %v", message, err)
		}
		got := make(chan error, 1)
		go func() {
			message, err := zero.Recv()
			if err == nil && string(message) != "sent after Resume" {
				err = fmt.Errorf("got %q", message)
			}
			got <- err
		}()
		waittest.Until(t, "node 0 knows that the other side is suspended again", func() bool {
			zero.mu.Lock()
			defer zero.mu.Unlock()
			if zero.suspension.there {
				zero.times.heard = zero.times.heard.Add(-2 * longHeartbeat) // as if that time had passed
				zero.setReadDeadline(zero.link)
			}
			return zero.suspension.there
		})
		waittest.Nothing(t, 3*heartbeatInterval/2, "while the other side is suspended", got)
		one.Resume()
		if err := one.Send([]byte("sent after Resume")); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// Both sides measure the offset between their clocks. Here it is zero, because both use the same clock.
func TestClockOffsetOfConn(t *testing.T) {
	zero, one := pair(t)
	go zero.Recv()
	go one.Recv()
	for _, c := range []*Conn{zero, one} {
		waittest.UntilNil(t, "the offset of the clock", func() error {
			ahead, known := c.ClockOffset()
			if !known || ahead.Abs() > time.Second { // after a quick round trip, which need not be the first
				return fmt.Errorf("the clock of the other side is %v ahead, known: %v", ahead, known)
			}
			return nil
		})
	}
}

// The estimate of the offset is exact if both directions take the same time.
func TestClockOffset(t *testing.T) {
	const ahead, trip = 3 * time.Hour, 400 * time.Microsecond
	var ours, theirs peerClock
	now := time.Unix(1e9, 0)
	for range 3 {
		theirs.receive(ours.heartbeat(now), now.Add(ahead+trip/2))
		now = now.Add(trip/2 + time.Second) // the other side answers after a second
		ours.receive(theirs.heartbeat(now.Add(ahead)), now.Add(trip/2))
		now = now.Add(time.Second)
	}
	if got, ok := ours.estimate(); !ok || got != ahead {
		t.Errorf("%v, %v; want %v", got, ok, ahead)
	}
	if got, ok := theirs.estimate(); !ok || got != -ahead {
		t.Errorf("the opposite direction: %v, %v", got, ok)
	}
}

func TestOtherSecret(t *testing.T) {
	l := testListener(t, testSecret(1))
	_, err := Dial(t.Context(), l.Addr().String(), testSecret(2), 1, 2)
	if !errors.Is(err, ErrSecret) {
		t.Errorf("got %v", err)
	}
	waitRefused(t, l, "node 1: it has a different secret")
}

// waitRefused waits until the last refusal of a listener contains want.
func waitRefused(t *testing.T, l *Listener, want string) {
	t.Helper()
	waittest.UntilNil(t, "a refusal", func() error {
		if got := l.LastRefusal(); !strings.Contains(got, want) {
			return fmt.Errorf("the last one is %q, want %q", got, want)
		}
		return nil
	})
}

// Dial fails immediately if another program or version answers, and tries again while the port is closed.
func TestNotNodeZero(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	answers := []string{"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", magicPlain + "\x63and something else"}
	go func() {
		for _, answer := range answers {
			c, err := other.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, answer)
			io.CopyN(io.Discard, c, int64(requestLen))
			c.Close()
		}
	}()
	for _, want := range []error{ErrNotIbrun, ErrVersion} {
		if _, err := Dial(t.Context(), other.Addr().String(), testSecret(1), 1, 2); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	other.Close()
	ctx, cancel := context.WithCancelCause(waittest.Context(t))
	enough, attempts := errors.New("enough"), 0
	_, err = DialNotify(ctx, other.Addr().String(), testSecret(1), 1, 2, func(why error) {
		if !strings.Contains(why.Error(), "refused") {
			t.Errorf("an attempt with a closed port: %v", why)
		}
		if attempts++; attempts == 5 {
			cancel(enough)
		}
	})
	if !errors.Is(err, enough) || !strings.Contains(err.Error(), "refused") || attempts < 5 {
		t.Errorf("with a closed port: %v after %d attempts", err, attempts)
	}
}

// Any number of clients that scan the port, send garbage, replay a handshake or send nothing do not affect a node.
func TestUnauthenticatedConnections(t *testing.T) {
	s := testSecret(1)
	l := testListener(t, s)
	recorded := append((&request{node: 1, nodes: 2}).encode(), s.Transcript([]byte("another time")).MAC(roleNode)...)
	r := rand.New(rand.NewPCG(1, 2))
	strangers := min(maxPending, l.pending.Limit) // twice as many as one source may have
	for i := range strangers {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() // at the end, so that all stay open
		switch i % 4 {
		case 0: // sends a part of a request and then nothing
			c.Write(recorded[:r.IntN(requestLen)])
		case 1:
			c.Write(recorded)
		case 2:
			garbage := make([]byte, r.IntN(200))
			for j := range garbage {
				garbage[j] = byte(r.Uint32())
			}
			c.Write(garbage)
		case 3:
			c.Close()
		}
	}
	dialled := make(chan connected, 1)
	go func() {
		c, err := Dial(t.Context(), l.Addr().String(), s, 2, 3)
		dialled <- connected{c, err}
	}()
	zero, err := l.Accept(t.Context())
	if err != nil || zero.Node() != 2 {
		t.Fatal(err)
	}
	two := <-dialled
	if two.err != nil {
		t.Fatal(two.err)
	}
	if err := two.conn.Send([]byte("here")); err != nil {
		t.Fatal(err)
	}
	if got, err := zero.Recv(); err != nil || string(got) != "here" {
		t.Errorf("%q, %v", got, err)
	}
	go two.conn.Close()
	zero.Close()
	l.mu.Lock()
	if n := l.pending.Len(); n > l.pending.Limit/2 {
		t.Errorf("%d pending connections of one source are kept", n)
	}
	l.mu.Unlock()
}

// The proof of a node is not valid as the proof of node 0.
func TestRolesDiffer(t *testing.T) {
	s := testSecret(1)
	if bytes.Equal(s.Transcript([]byte("x")).MAC(roleCoordinator), s.Transcript([]byte("x")).MAC(roleNode)) {
		t.Error("both roles give the same proof")
	}
}

// Close keeps its limit while the other side reads nothing and a frame is being written.
func TestCloseWhileWriting(t *testing.T) {
	for name, s := range map[string]Security{"plain": testSecret(1), "encrypted": encrypted(t, 1)} {
		t.Run(name, func(t *testing.T) {
			zero, one, _ := pairWith(t, s, time.Hour, nil)
			one.mu.Lock() // node 1 reads nothing
			defer one.mu.Unlock()
			for range maxUnacknowledged / MaxMessage {
				if err := zero.Send(bytes.Repeat([]byte{1}, MaxMessage)); err != nil {
					t.Fatal(err)
				}
			}
			zero.mu.Lock() // until the writer waits for node 1
			for last := -1; zero.out.written != last || last == 0; {
				last = zero.out.written
				zero.waitUntil(200*time.Millisecond, func() bool { return false })
			}
			zero.mu.Unlock()
			closed := make(chan struct{})
			go func() {
				zero.CloseWithin(10 * time.Millisecond)
				close(closed)
			}()
			waittest.Receive(t, "Close returns", closed)
		})
	}
}
