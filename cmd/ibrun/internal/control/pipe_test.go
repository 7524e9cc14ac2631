package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// files returns a pipe that is not open for any other process.
func files(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// newPipe returns NewPipe of two files, which the test closes at its end.
func newPipe(t *testing.T, in, out *os.File, local, remote string) *Pipe {
	t.Helper()
	p, err := NewPipe(in, out, local, remote)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// pipeEnds returns both ends of a pipe for each direction.
func pipeEnds(t *testing.T) (coordinator, node *Pipe) {
	t.Helper()
	fromHead, toNode := files(t)
	fromNode, toHead := files(t)
	return newPipe(t, fromNode, toNode, "h0", "h1"), newPipe(t, fromHead, toHead, "h1", "h0")
}

// pipeRelay copies between two ends, and changes what edit changes: it gets the offset of b in the direction, and returns what to
// copy and whether to go on. When it does not go on, the relay closes everything.
func pipeRelay(t *testing.T, edit func(toNode bool, offset int, b []byte) (out []byte, more bool)) (coordinator, node *Pipe) {
	t.Helper()
	coordinator, nearCoordinator := pipeEnds(t)
	nearNode, node := pipeEnds(t)
	pass := func(from, to *Pipe, toNode bool) {
		buf := make([]byte, 4096)
		for offset := 0; ; {
			n, err := from.Read(buf)
			out, more := edit(toNode, offset, buf[:n])
			offset += n
			_, errWrite := to.Write(out)
			if err != nil && more {
				to.CloseWrite()
				return
			}
			if errWrite != nil || !more {
				nearCoordinator.Close()
				nearNode.Close()
				return
			}
		}
	}
	go pass(nearCoordinator, nearNode, true)
	go pass(nearNode, nearCoordinator, false)
	return coordinator, node
}

// connected is the result of a handshake.
type connected struct {
	conn *Conn
	err  error
}

// connect makes a connection between node 0 and node 1 of 2 over these ends, whose sides may be silent for that time.
func connect(t *testing.T, coordinator, node net.Conn, s Security, heartbeat time.Duration) (zero, one connected) {
	t.Helper()
	done := make(chan connected)
	go func() {
		c, err := JoinPipe(t.Context(), node, s, 1, 2)
		done <- connected{c, err}
	}()
	c, err := ServePipe(t.Context(), coordinator, s, 1, 2, heartbeat, nil)
	return connected{c, err}, <-done
}

// pipePair returns both ends of a connection over pipes.
func pipePair(t *testing.T, s Security) (zero, one *Conn) {
	t.Helper()
	coordinator, node := pipeEnds(t)
	a, b := connect(t, coordinator, node, s, longHeartbeat)
	if a.err != nil || b.err != nil {
		t.Fatal(a.err, b.err)
	}
	t.Cleanup(func() {
		go a.conn.Close()
		b.conn.Close()
	})
	return a.conn, b.conn
}

// A connection over pipes delivers messages of all lengths in both directions at once, and knows the hosts and their clocks.
func TestPipe(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Security{"plain": testSecret(1), "encrypted": encrypted(t, 1)} {
		zero, one := pipePair(t, s)
		if zero.Node() != 1 || one.Nodes() != 2 || zero.Remote().String() != "h1" || one.Remote().String() != "h0" ||
			zero.Local().String() != "h0" || zero.Remote().Network() != "pipe" {
			t.Errorf("%s: node %d at %v and node 0 at %v of %d", name, zero.Node(), zero.Remote(), one.Remote(), one.Nodes())
		}
		exchange(t, zero, one, 200, func() {})
		go zero.Send(bytes.Repeat([]byte{3}, MaxMessage))
		if got, err := one.Recv(); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{3}, MaxMessage)) {
			t.Errorf("%s: the longest message: %d bytes, %v", name, len(got), err)
		}
		zero.mu.Lock()
		zero.waitUntil(time.Minute, func() bool { // not every round trip is quick
			ahead, known := zero.clock.estimate()
			return known && ahead.Abs() <= time.Second
		})
		zero.mu.Unlock()
		if ahead, known := zero.ClockOffset(); !known || ahead.Abs() > time.Second {
			t.Errorf("%s: the clock is %v ahead, known: %v", name, ahead, known)
		}
		if err := one.Send([]byte("last")); err != nil {
			t.Fatal(err)
		}
		go one.CloseWithin(time.Minute)
		if got, err := zero.Recv(); err != nil || string(got) != "last" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := zero.Recv(); err != io.EOF {
			t.Errorf("%s: after Close: %v", name, err)
		}
	}
}

// A socket works as both files of a side. Files that have no deadlines are refused.
func TestPipeFiles(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	_, w := files(t)
	if _, err := NewPipe(file, w, "a", "b"); err == nil || !strings.Contains(err.Error(), "must be a pipe or a socket") {
		t.Errorf("a regular file: %v", err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the other file is still open: %v", err)
	}
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var ends []*Pipe
	dial := func() (net.Conn, error) { return net.Dial("unix", l.Addr().String()) }
	for _, open := range []func() (net.Conn, error){dial, l.Accept} {
		c, err := open()
		if err != nil {
			t.Fatal(err)
		}
		in, errIn := c.(*net.UnixConn).File()
		out, errOut := c.(*net.UnixConn).File()
		c.Close()
		if errIn != nil || errOut != nil {
			t.Fatal(errIn, errOut)
		}
		ends = append(ends, newPipe(t, in, out, "a", "b"))
	}
	zero, one := connect(t, ends[0], ends[1], testSecret(1), longHeartbeat)
	if zero.err != nil || one.err != nil {
		t.Fatal(zero.err, one.err)
	}
	exchange(t, zero.conn, one.conn, 10, func() {})
	go zero.conn.CloseWithin(time.Minute)
	if _, err := one.conn.Recv(); err != io.EOF {
		t.Errorf("after Close: %v", err)
	}
	one.conn.Close()
}

// A side with another secret, another number or another choice of encryption is refused, and so is another program. Both sides
// say why.
func TestPipeRefuses(t *testing.T) {
	t.Parallel()
	s := testSecret(1)
	serve := func(raw net.Conn) error {
		_, err := ServePipe(t.Context(), raw, s, 1, 2, longHeartbeat, nil)
		return err
	}
	for name, test := range map[string]struct {
		join func(raw net.Conn) error
		want string
	}{
		"secret": {func(raw net.Conn) error {
			_, err := JoinPipe(t.Context(), raw, testSecret(2), 1, 2)
			return err
		}, "different secret"},
		"number": {func(raw net.Conn) error {
			_, err := JoinPipe(t.Context(), raw, s, 1, 3)
			return err
		}, "it was started as node 1 of 2, and claims to be node 1 of 3"},
		"program": {func(raw net.Conn) error {
			_, err := raw.Write(bytes.Repeat([]byte("Welcome to the cluster\n"), 10))
			return errors.Join(err, errors.New("expected"))
		}, "it is not ibrun"},
		"end": {func(raw net.Conn) error {
			raw.Close()
			return errors.New("expected")
		}, "its pipe was closed"},
	} {
		coordinator, node := pipeEnds(t)
		served := make(chan error, 1)
		go func() { served <- serve(coordinator) }()
		joined := test.join(node)
		if err := <-served; err == nil || joined == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v and %v, want %q", name, err, joined, test.want)
		}
	}
}

// The handshake ends when its context does.
func TestPipeContext(t *testing.T) {
	t.Parallel()
	coordinator, node := pipeEnds(t)
	why := errors.New("the user has had enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := ServePipe(ctx, coordinator, testSecret(1), 1, 2, longHeartbeat, nil); !errors.Is(err, why) {
		t.Errorf("node 0: %v", err)
	}
	if _, err := JoinPipe(ctx, node, testSecret(1), 1, 2); !errors.Is(err, why) {
		t.Errorf("node 1: %v", err)
	}
}

// sentAs returns message i of those that disturb sends.
func sentAs(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 100+i) }

// wantPrefix receives messages until the connection ends, and checks that they are the first of those that were sent.
func wantPrefix(t *testing.T, what string, c connected) error {
	t.Helper()
	if c.err != nil {
		return c.err
	}
	for i := 0; ; i++ {
		got, err := c.conn.Recv()
		if err != nil {
			return err
		}
		if !bytes.Equal(got, sentAs(i)) {
			t.Errorf("%s: message %d is another", what, i)
			return nil
		}
	}
}

// disturb makes a connection over a relay, sends messages in both directions, and returns why each side has ended.
func disturb(t *testing.T, what string, heartbeat time.Duration,
	edit func(toNode bool, offset int, b []byte) ([]byte, bool)) (zero, one error) {
	t.Helper()
	coordinator, node := pipeRelay(t, edit)
	a, b := connect(t, coordinator, node, testSecret(1), heartbeat)
	var both sync.WaitGroup
	for _, c := range []connected{a, b} {
		if c.err == nil {
			for i := range 200 { // a frame whose length was changed must end, too
				c.conn.Send(sentAs(i))
			}
		}
	}
	both.Go(func() { zero = wantPrefix(t, what, a) })
	both.Go(func() { one = wantPrefix(t, what, b) })
	both.Wait()
	return zero, one
}

// offsets calls f for offsets within what each side sends in disturb: in the handshake and in the first frames. A soak test tries
// all of them.
func offsets(t *testing.T, f func(toNode bool, at int)) {
	step, first := 11, int(soaktest.Seed(t)%11)
	if soaktest.On() {
		step, first = 1, 0
	}
	for at := first; at < requestLen+challengeLen+3*100; at += step {
		f(true, at)
		f(false, at)
	}
}

// Wherever a pipe is cut, in the handshake or within a frame, both sides end with that reason, and what they have received is
// complete and in order.
func TestPipeCuts(t *testing.T) {
	t.Parallel()
	offsets(t, func(toNode bool, cut int) {
		zero, one := disturb(t, "cut", longHeartbeat, func(direction bool, offset int, b []byte) ([]byte, bool) {
			if direction != toNode || offset+len(b) < cut {
				return b, true
			}
			return b[:cut-offset], false
		})
		for side, err := range []error{zero, one} {
			if !errors.Is(err, ErrPipe) {
				t.Errorf("cut at %d, to the node: %v: side %d ended with %v", cut, toNode, side, err)
			}
		}
	})
}

// A byte that was changed on the way ends the connection. No side delivers it.
func TestPipeFlips(t *testing.T) {
	t.Parallel()
	offsets(t, func(toNode bool, flip int) {
		// A side may wait for the rest of a first frame whose length was changed, and the other side for its answer.
		zero, one := disturb(t, "flip", testHeartbeat, func(direction bool, offset int, b []byte) ([]byte, bool) {
			if i := flip - offset; direction == toNode && i >= 0 && i < len(b) {
				b = bytes.Clone(b)
				b[i] ^= 0x40
			}
			return b, true
		})
		if zero == nil || one == nil || zero == io.EOF || one == io.EOF {
			t.Errorf("byte %d flipped, to the node: %v: %v and %v", flip, toNode, zero, one)
		}
	})
}

// The reason that the starter of a node knows takes the place of the end of its pipe.
func TestPipeExplained(t *testing.T) {
	t.Parallel()
	coordinator, node := pipeEnds(t)
	why := errors.New("ssh said: connection reset by peer")
	go JoinPipe(t.Context(), node, testSecret(1), 1, 2)
	c, err := ServePipe(t.Context(), coordinator, testSecret(1), 1, 2, longHeartbeat, func() error { return why })
	if err != nil {
		t.Fatal(err)
	}
	node.Close()
	if _, err := c.Recv(); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// silentNode makes the handshake of node 1 over one end and returns node 0 at the other end. The caller then acts as node 1, and
// may be silent for that time.
func silentNode(t *testing.T, heartbeat time.Duration) (zero *Conn, one *link, node net.Conn) {
	t.Helper()
	return silentNodeOver(t, heartbeat, func(t *testing.T) (coordinator, node net.Conn) { return pipeEnds(t) })
}

// silentNodeOver is silentNode over the pipes that ends returns.
func silentNodeOver(t *testing.T, heartbeat time.Duration, ends func(*testing.T) (coordinator, node net.Conn)) (zero *Conn,
	one *link, node net.Conn) {
	t.Helper()
	coordinator, node := ends(t)
	joined := make(chan *link)
	go func() {
		g, err := greetCoordinator(node, testSecret(1), request{node: 1, nodes: 2}, false)
		if err != nil {
			t.Error(err)
		}
		l, err := newLink(g, false)
		if err != nil {
			t.Error(err)
		}
		joined <- l
	}()
	zero, err := ServePipe(t.Context(), coordinator, testSecret(1), 1, 2, heartbeat, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { zero.CloseWithin(0) })
	return zero, <-joined, node
}

// fill sends more than the pipe holds.
func fill(t *testing.T, c *Conn) {
	t.Helper()
	if err := c.Send(make([]byte, MaxMessage)); err != nil {
		t.Error(err)
	}
}

// A side that sends heartbeats but does not read is lost after the time of a heartbeat. One that has announced that it stops is
// not. The time is that of a bubble of testing/synctest, so the pipes are in memory. With IBRUN_SOAK=1 the test runs in real time
// too, with pipes of the kernel.
func TestPipeStopsReading(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		testStopsReading(t, func(t *testing.T) (coordinator, node net.Conn) { return net.Pipe() }, synctest.Test)
	})
	if soaktest.On() {
		t.Run("kernel", func(t *testing.T) {
			testStopsReading(t, func(t *testing.T) (coordinator, node net.Conn) { return pipeEnds(t) },
				func(t *testing.T, test func(*testing.T)) { test(t) })
		})
	}
}

// testStopsReading is TestPipeStopsReading with the pipes that ends returns. inTime runs a test, in a bubble or in real time.
func testStopsReading(t *testing.T, ends func(*testing.T) (coordinator, node net.Conn),
	inTime func(*testing.T, func(*testing.T))) {
	t.Parallel()
	const heartbeat = 10 * time.Second // node 1 is not late by so much
	run := func(name string, test func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime(t, test)
		})
	}
	run("running", func(t *testing.T) {
		zero, one, node := silentNodeOver(t, heartbeat, ends)
		waittest.Bound(t, node)
		fill(t, zero)
		ended := make(chan error, 1)
		go func() {
			_, err := zero.Recv()
			ended <- err
		}()
		var clock peerClock
		var err error
		waittest.Until(t, "node 0 gives up", func() bool {
			_, _ = node.Write(one.writer.encode(frame{kindHeartbeat, clock.heartbeat(time.Now())})) // fails when it has
			waittest.Elapse(t, heartbeat/100, "a bubble has time to pass")
			select {
			case err = <-ended:
				return true
			default:
				return false
			}
		})
		if err == nil || !strings.Contains(err.Error(), "it has read nothing for "+heartbeat.String()) {
			t.Errorf("got %v", err)
		}
	})
	run("suspended", func(t *testing.T) {
		zero, one, node := silentNodeOver(t, heartbeat, ends)
		if _, err := node.Write(one.writer.encode(frame{kind: kindSuspend})); err != nil {
			t.Fatal(err)
		}
		zero.mu.Lock()
		zero.waitUntil(time.Minute, func() bool { return zero.suspension.there })
		zero.mu.Unlock()
		fill(t, zero)
		waittest.Elapse(t, heartbeat+heartbeat/5, "node 0 does not give up")
		for {
			f, err := one.reader.read(node)
			if err != nil {
				t.Fatalf("node 0 has given up: %v", err)
			}
			if f.kind == kindMessage {
				break
			}
		}
	})
}

// What a side has sent before it closed its pipes arrives, although the other side can write no more.
func TestPipeLastMessages(t *testing.T) {
	t.Parallel()
	zero, one, node := silentNode(t, longHeartbeat)
	zero.mu.Lock() // reads nothing
	for _, text := range []string{"why", "where"} {
		if _, err := node.Write(one.writer.encode(frame{kindMessage, []byte(text)})); err != nil {
			t.Error(err)
		}
	}
	node.Close()
	zero.link.wakeWriter()
	zero.heartbeatDue = true // the write fails
	zero.mu.Unlock()
	for _, want := range []string{"why", "where"} {
		if got, err := zero.Recv(); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if _, err := zero.Recv(); !errors.Is(err, ErrPipe) {
		t.Errorf("at the end: %v", err)
	}
}
