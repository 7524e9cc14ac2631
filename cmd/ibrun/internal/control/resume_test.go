package control

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// pairOver returns both ends of a connection between node 0 and node 1 of 2, whose sides may be silent for that time. The node
// connects through via, unless that is nil.
func pairOver(t *testing.T, heartbeat time.Duration, via *proxy) (zero, one *Conn, l *Listener) {
	t.Helper()
	return pairWith(t, testSecret(1), heartbeat, via)
}

// pairWith is pairOver with this security.
func pairWith(t *testing.T, s Security, heartbeat time.Duration, via *proxy) (zero, one *Conn, l *Listener) {
	t.Helper()
	l = testListenerFor(t, s, heartbeat)
	addr := l.Addr().String()
	if via != nil {
		addr = via.start(t, addr)
	}
	one, err := Dial(t.Context(), addr, s, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if zero, err = l.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		go zero.Close()
		one.Close()
	})
	return zero, one, l
}

// waitReachable waits until node 0 knows that it reaches the port of the other node.
func waitReachable(t *testing.T, c *Conn) {
	t.Helper()
	waittest.Receive(t, "node 0 reaches the port of node 1", c.reachable)
}

// A node whose port does not answer at first, and then wrongly, is reached later.
func TestReachedLater(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	banner := bytes.Repeat([]byte{7}, bannerLen)
	go func() {
		for _, answer := range [][]byte{nil, make([]byte, bannerLen), banner} {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			raw.Write(answer)
			raw.Close()
		}
	}()
	c := &Conn{lost: make(chan struct{}), reachable: make(chan struct{})}
	go (&awaiter{conn: c, probe: aliveProbe{l.Addr().String(), banner}}).test()
	waitReachable(t, c)
}

// reset breaks the link of a side as a device between would: both sides get an error. It waits until there is a link.
func (c *Conn) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waitUntil(time.Minute, func() bool { return c.link != nil })
	tcp := innermost(c.link.raw).(*net.TCPConn)
	tcp.SetLinger(0)
	tcp.Close()
}

// exchange sends n messages in both directions, and checks that each arrives once and in order. meanwhile is called after every
// message that one side has received.
func exchange(t *testing.T, zero, one *Conn, n int, meanwhile func()) {
	t.Helper()
	var all sync.WaitGroup
	defer all.Wait()
	message := func(i int) []byte {
		b := make([]byte, 8+i*37%5000)
		binary.BigEndian.PutUint64(b, uint64(i))
		return b
	}
	for k, dir := range [][2]*Conn{{zero, one}, {one, zero}} {
		all.Go(func() {
			for i := range n {
				if err := dir[0].Send(message(i)); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for i := range n {
				got, err := dir[1].Recv()
				if err != nil || !bytes.Equal(got, message(i)) {
					t.Errorf("direction %d, message %d: %d bytes of another, %v", k, i, len(got), err)
					return
				}
				if k == 0 {
					meanwhile()
				}
			}
		})
	}
}

// Resets at any moment, on either side, neither lose nor double a message.
func TestResets(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) { testResets(t, testSecret(1)) })
	t.Run("encrypted", func(t *testing.T) { testResets(t, encrypted(t, 1)) })
}

func testResets(t *testing.T, s Security) {
	zero, one, _ := pairWith(t, s, longHeartbeat, nil)
	waitReachable(t, zero) // until then node 0 waits only for a short time for the next link
	resets, messages := 50, 1500
	if soaktest.On() {
		resets, messages = 2000, 200000
	}
	seed := soaktest.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	done := 0
	exchange(t, zero, one, messages, func() {
		if r.IntN(messages/resets) == 0 {
			[]*Conn{zero, one}[r.IntN(2)].reset()
			done++
		}
	})
	if done < resets/4 {
		t.Errorf("the connection was broken only %d times", done)
	}
}

// A message that cannot be sent now is kept. When too many bytes are kept, Send blocks until the connection was made again.
func TestSendBlocks(t *testing.T) {
	zero, one, l := pairOver(t, longHeartbeat, nil)
	waitReachable(t, zero)
	l.mu.Lock() // node 0 accepts no further link
	one.reset()
	const count = maxUnacknowledged/MaxMessage + 3
	sent := make(chan int, count)
	go func() {
		for i := range count {
			if err := one.Send(bytes.Repeat([]byte{byte(i)}, MaxMessage)); err != nil {
				t.Error(err)
			}
			sent <- i
		}
	}()
	for range maxUnacknowledged / MaxMessage {
		<-sent
	}
	one.mu.Lock()
	if one.out.bytes > maxUnacknowledged+MaxMessage {
		t.Errorf("%d bytes are kept", one.out.bytes)
	}
	one.mu.Unlock()
	l.mu.Unlock()
	for i := range count {
		if got, err := zero.Recv(); err != nil || len(got) != MaxMessage || got[0] != byte(i) || got[MaxMessage-1] != byte(i) {
			t.Fatalf("message %d: %d bytes, %v", i, len(got), err)
		}
	}
}

// Post never blocks. A side for which too much waits is lost.
func TestPost(t *testing.T) {
	zero, one, l := pairOver(t, time.Hour, nil)
	waitReachable(t, zero)
	l.mu.Lock() // node 0 accepts no further link
	defer l.mu.Unlock()
	one.reset()
	message := bytes.Repeat([]byte{7}, MaxMessage)
	post := func() {
		t.Helper()
		if err := one.Post(message); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * maxPosted / MaxMessage { // some may arrive before the link is broken
		post()
	}
	for _, since := range []time.Duration{0, 3 * time.Hour} {
		one.mu.Lock()
		if one.out.bytes <= maxPosted || one.err != nil {
			t.Errorf("%d bytes wait, %v", one.out.bytes, one.err)
		}
		one.times.acked = one.times.acked.Add(-since)
		one.mu.Unlock()
		post()
	}
	if _, err := one.Recv(); err == nil || !strings.Contains(err.Error(), "has received nothing for 1h0m0s, and ") {
		t.Errorf("%v", err)
	}
}

// TestNotReceiving: a side that receives anything, or for which nothing waits, makes progress. The time in which either side is
// stopped does not count.
func TestNotReceiving(t *testing.T) {
	long := -3 * time.Hour
	for name, c := range map[string]struct {
		change func(c *Conn)
		want   bool
	}{
		"nothing":         {func(*Conn) {}, true},
		"another message": {func(c *Conn) { c.Post(nil) }, true},
		"received again":  {func(c *Conn) { c.handleFrame(c.link, frame{kindAck, encodeAck(0)}) }, true},
		"received":        {func(c *Conn) { c.handleFrame(c.link, frame{kindAck, encodeAck(1)}) }, false},
		"received all": {func(c *Conn) {
			c.handleFrame(c.link, frame{kindAck, encodeAck(2)})
			c.age(long)
			c.Post(nil)
		}, false},
		"received over another": {func(c *Conn) { c.noteReceived(1, time.Now(), c.out.restart) }, false},
		"over another, nothing": {func(c *Conn) { c.noteReceived(0, time.Now(), c.out.restart) }, true},
		"suspended":             {func(c *Conn) { c.suspension.here = true }, false},
		"resumed":               {func(c *Conn) { c.suspension.here = true; c.Resume() }, false},
		"the peer is suspended": {func(c *Conn) { c.handleFrame(c.link, frame{kind: kindSuspend}) }, false},
		"the peer has resumed":  {func(c *Conn) { c.suspension.there = true; c.handleFrame(c.link, frame{kind: kindClose}) }, false},
		"this process stopped":  {func(c *Conn) { c.times.ran = c.times.ran.Add(long) }, false},
	} {
		raw, _ := net.Pipe()
		conn := &Conn{heartbeat: time.Hour, times: times{ran: time.Now()}, link: &link{raw: raw, wake: make(chan struct{}, 1)}}
		conn.changed.L = &conn.mu
		conn.Post(nil)
		conn.Post(nil)
		conn.out.take(writeBatch)
		conn.age(long)
		c.change(conn)
		if got := conn.notReceiving(time.Now()); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// age makes what was received last older.
func (c *Conn) age(by time.Duration) { c.times.acked = c.times.acked.Add(by) }

// A side that does not call Recv reads nevertheless: the other one can send more than is kept for a broken connection.
func TestNobodyReceives(t *testing.T) {
	zero, one := pair(t)
	const count = 2 * maxUnacknowledged / MaxMessage
	for i := range count {
		if err := one.Send(bytes.Repeat([]byte{byte(i)}, MaxMessage)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count {
		if got, err := zero.Recv(); err != nil || len(got) != MaxMessage || got[0] != byte(i) {
			t.Fatalf("message %d: %d bytes, %v", i, len(got), err)
		}
	}
}

// A process that was killed is reported immediately, long before the time of a heartbeat is over.
func TestPeerDies(t *testing.T) {
	t.Parallel()
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		zero, one, _ := pairOver(t, time.Hour, nil)
		waitReachable(t, zero)
		one.kill(t)
		if _, err := zero.Recv(); !errors.Is(err, ErrDied) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("node that cannot be reached", func(t *testing.T) {
		t.Parallel()
		zero, one, _ := pairOver(t, time.Hour, nil)
		waitReachable(t, zero)
		zero.mu.Lock()
		zero.reachable = make(chan struct{})
		zero.recover = (&awaiter{conn: zero, wait: 100 * time.Millisecond}).recover
		zero.mu.Unlock()
		one.kill(t)
		if _, err := zero.Recv(); err == nil || !strings.Contains(err.Error(), "was not made again within 100ms") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("node 0", func(t *testing.T) {
		zero, one, l := pairOver(t, time.Hour, nil)
		if err := l.listener.Close(); err != nil {
			t.Fatal(err)
		}
		zero.kill(t)
		if _, err := one.Recv(); !errors.Is(err, ErrDied) {
			t.Errorf("got %v", err)
		}
	})
}

// kill does with the connections of a side what the kernel does when its process is killed.
func (c *Conn) kill(t *testing.T) {
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.end(ErrClosed) // so that Close does not wait
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recover = func(uint64, error) {}
	c.link.raw.Close()
	c.onEnd() // closes the port that shows that the process lives
	c.onEnd = func() {}
}

// A node receives the reason if node 0 has given up its connection.
func TestGivenUp(t *testing.T) {
	zero, one, _ := pairOver(t, time.Hour, nil)
	zero.mu.Lock()
	zero.end(zero.silence(zero.heartbeat))
	zero.mu.Unlock()
	if _, err := one.Recv(); !errors.Is(err, errGivenUp) {
		t.Errorf("got %v", err)
	}
}

// A session may be continued only by its own node.
func TestOtherNodeResumes(t *testing.T) {
	zero, one, l := pairOver(t, time.Hour, nil)
	two := dial(t, l, testSecret(1), 2, 3)
	defer func() { go two.Close() }()
	if _, err := l.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	two.mu.Lock()
	two.session = one.session
	two.mu.Unlock()
	if _, _, err := (&redialer{two, testSecret(1)}).resume(raw); !errors.Is(err, errGivenUp) {
		t.Errorf("got %v", err)
	}
	exchange(t, zero, one, 10, func() {})
}

// proxy is a device between two nodes that follows TCP connections, such as a NAT.
type proxy struct {
	mu      sync.Mutex
	silent  bool // new connections are not answered
	pairs   []*proxied
	onBytes func(b []byte, at int) // at is how many bytes of that direction of the connection came before b; nil: nothing to do
}

type proxied struct {
	near, far net.Conn
	mu        sync.Mutex
	forgotten bool
}

// start listens for connections and forwards them to addr.
func (p *proxy) start(t *testing.T, addr string) (via string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				near.Close()
				return
			}
			c := &proxied{near: near, far: far}
			p.mu.Lock()
			c.forgotten = p.silent
			p.pairs = append(p.pairs, c)
			p.mu.Unlock()
			t.Cleanup(func() { near.Close(); far.Close() })
			go p.forward(c, far, near)
			go p.forward(c, near, far)
		}
	}()
	return l.Addr().String()
}

func (p *proxy) forward(c *proxied, to, from net.Conn) {
	b := make([]byte, 4096)
	for at := 0; ; {
		n, err := from.Read(b)
		c.mu.Lock()
		forgotten := c.forgotten
		c.mu.Unlock()
		if forgotten {
			if err != nil {
				return
			}
			continue
		}
		if p.onBytes != nil {
			p.onBytes(b[:n], at)
		}
		at += n
		if _, errWrite := to.Write(b[:n]); err != nil || errWrite != nil {
			to.Close()
			return
		}
	}
}

// forget drops all bytes of the connections from now on, without a message to either side.
func (p *proxy) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.pairs {
		c.mu.Lock()
		c.forgotten = true
		c.mu.Unlock()
	}
}

// A device that forgets a connection and drops its bytes silently costs nothing: the node makes a new connection, and node 0
// gives up the old one, which still looks sound there.
func TestForgottenConnection(t *testing.T) {
	t.Parallel()
	var p proxy
	zero, one, _ := pairOver(t, time.Hour, &p) // node 1 makes a new connection after half of this
	for round := range 2 {
		p.forget()
		first := true
		for i := range 10 {
			message := fmt.Appendf(nil, "%d.%d", round, i)
			for _, dir := range [][2]*Conn{{zero, one}, {one, zero}} {
				if err := dir[0].Send(message); err != nil {
					t.Fatal(err)
				}
				if first {
					replaceSilent(t, one)
					first = false
				}
				if got, err := dir[1].Recv(); err != nil || !bytes.Equal(got, message) {
					t.Fatalf("got %q, %v; want %q", got, err, message)
				}
			}
		}
	}
}

// replaceSilent makes a side that is not node 0 behave as if its link had been silent for half the time of a heartbeat, and waits
// until it has another link.
func replaceSilent(t *testing.T, c *Conn) {
	t.Helper()
	c.mu.Lock()
	silent := c.link
	c.mu.Unlock()
	waittest.Until(t, "there is another link", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.link == silent {
			long := time.Now().Add(-c.heartbeat / 2)
			c.moveClocks(func(time.Time) time.Time { return long }) // again, if something was still on the way
			c.setReadDeadline(c.link)
		}
		return c.link != nil && c.link != silent
	})
}

// A byte that is changed on the way breaks the link, and the message is sent again.
func TestCorruptedByte(t *testing.T) {
	const handshake = 1000 // more bytes than a handshake has: a wrong one ends the connection
	var count int
	p := proxy{}
	var mu sync.Mutex
	p.onBytes = func(b []byte, at int) {
		mu.Lock()
		defer mu.Unlock()
		if count += len(b); len(b) > 0 && at > handshake && count > 20000 {
			count = 0
			b[len(b)/2] ^= 4
		}
	}
	zero, one, _ := pairOver(t, longHeartbeat, &p)
	waitReachable(t, zero)
	exchange(t, zero, one, 60, func() {})
}

// The messages that were sent before Close arrive although the connection breaks.
func TestCloseWhileBroken(t *testing.T) {
	zero, one, _ := pairOver(t, longHeartbeat, nil)
	waitReachable(t, zero)
	one.reset()
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
}
