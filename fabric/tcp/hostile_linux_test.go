package tcp

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
)

// targetLimit is how many connections may be in their handshake at a target.
const targetLimit = 64

// openTarget opens peer 0 of 3 over loopback.
func openTarget(tb testing.TB) (*Domain, string) {
	tr := &Transport{Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit}
	rand.Read(tr.Key[:])
	opened, err := tr.Open(tb.Context(), &fabric.Config{Self: 0, Size: 3})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := opened.Close(); err != nil {
			tb.Error(err)
		}
	})
	d := opened.(*Domain)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attempts.unauthenticated.Limit < 2 || d.attempts.unauthenticated.Limit > maxUnauthenticated {
		tb.Errorf("%d connections may be in their handshake", d.attempts.unauthenticated.Limit)
	}
	d.attempts.unauthenticated.Limit = targetLimit
	d.settings.handshakeTimeout = time.Hour // no handshake ends because the test is slow
	places, err := parseAddress(d.Addr())
	if err != nil {
		tb.Fatal(err)
	}
	return d, places[0].String()
}

// dial connects to a target from outside.
func dial(tb testing.TB, at string) net.Conn {
	c, err := net.Dial("tcp", at)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() }) // it may be closed already
	return c
}

// pollUntil polls a domain until f returns true, or until there is an event.
func pollUntil(tb testing.TB, d *Domain, f func() bool) (ev fabric.Event) {
	tb.Helper()
	var evs [1]fabric.Event
	waittest.Poll(tb, "something happens", func() bool {
		if f() {
			return true
		}
		n, err := d.Poll(evs[:])
		if err != nil {
			tb.Fatal(err)
		}
		return n == 1
	})
	return evs[0]
}

// readReply reads what a domain sends, at most n bytes; fewer if it closes.
func readReply(tb testing.TB, d *Domain, c net.Conn, n int) []byte {
	b := make([]byte, n)
	got := make(chan int, 1)
	go func() {
		k, err := io.ReadFull(c, b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			k = -1
		}
		got <- k
	}()
	k := 0
	ev := pollUntil(tb, d, func() bool {
		select {
		case k = <-got:
			return true
		default:
			return false
		}
	})
	if ev.Kind != 0 || k < 0 {
		tb.Fatalf("event %+v, %d bytes received", ev, k)
	}
	return b[:k]
}

func write(tb testing.TB, c net.Conn, b []byte) {
	if _, err := c.Write(b); err != nil {
		tb.Fatal(err)
	}
}

// locked returns f with the lock of a domain: the timer of progress also receives.
func locked(d *Domain, f func() bool) func() bool {
	return func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return f()
	}
}

// authenticate connects to a target as peer from and completes the handshake. It also returns the messages that it sent.
func authenticate(tb testing.TB, d *Domain, at string, from uint32) (c net.Conn, first, proof []byte) {
	c = dial(tb, at)
	var t transcript
	t.hello = hello{from: from, size: 3, options: optionChecksum, session: session{byte(from)}}
	first = t.helloMessage(&d.settings.key)
	write(tb, c, first)
	if err := t.parseChallenge(readReply(tb, d, c, challengeBytes), &d.settings.key); err != nil {
		tb.Fatal(err)
	}
	proof = t.positionMessage(&d.settings.key, labelProof, 0)
	write(tb, c, proof)
	b := readReply(tb, d, c, positionBytes)
	if _, ok := t.parsePosition(b, &d.settings.key, labelAccept); !ok {
		tb.Fatalf("not accepted: %x", b)
	}
	// Its host refuses connections, so the peer is lost as soon as this one closes.
	write(tb, c, joinFrames(kindAddress, string(appendAddress(nil, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}))))
	pollUntil(tb, d, locked(d, func() bool { return d.peers[from].conn.confirmed }))
	return c, first, proof
}

// TestUnauthenticated: a client that does not know the secret is sent nothing and changes nothing, whatever it tries.
func TestUnauthenticated(t *testing.T) {
	d, at := openTarget(t)
	peer, first, proof := authenticate(t, d, at, 1)
	exchange := func() {
		t.Helper()
		write(t, peer, joinFrames(kindMessage, "hi"))
		if ev := pollUntil(t, d, func() bool { return false }); ev.Kind != fabric.Message || ev.Peer != 1 || string(ev.Data) != "hi" {
			t.Fatalf("%+v", ev)
		}
	}
	stale := transcript{}
	stale.hello = hello{from: 2, size: 3, session: session{1}}
	otherKey := [32]byte{1}
	for name, b := range map[string][]byte{
		"nothing":      nil,
		"HTTP":         []byte("GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: something that is long enough for a hello\r\n\r\n"),
		"zeroes":       make([]byte, 1<<16),
		"garbage":      bytes.Repeat([]byte("ibrunTCP"), 1000),
		"stale secret": stale.helloMessage(&otherKey),
		"frames":       bytes.Repeat([]byte{0, 0, 0, 0, 1, 0, 0, 0}, 100),
	} {
		c := dial(t, at)
		_, _ = c.Write(b) // it may be closed before all has gone
		if tcp := c.(*net.TCPConn); len(b) < helloBytes {
			if err := tcp.CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		if got := readReply(t, d, c, 1); len(got) != 0 {
			t.Errorf("%s is answered %x", name, got)
		}
		exchange()
	}
	c := dial(t, at) // a replayed hello gets a new challenge, so the proof cannot be replayed
	write(t, c, first)
	readReply(t, d, c, challengeBytes)
	write(t, c, proof)
	if got := readReply(t, d, c, 1); len(got) != 0 {
		t.Errorf("a replay is answered %x", got)
	}
	exchange()
	setMinAge(d, 0)
	for n := range 300 { // clients that send nothing, or part of a hello: twice as many as one source may have, and more
		write(t, dial(t, at), first[:n%helloBytes])
	}
	exchange()
	authenticate(t, d, at, 2) // there is room for a peer nevertheless, and the peers keep their connections
	exchange()
	if n := inHandshake(d); n > targetLimit/2 {
		t.Errorf("%d handshakes are in progress", n)
	}
	pollUntil(t, d, func() bool { // they are dropped in the end
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, hs := range d.attempts.handshakes {
			if hs != nil {
				hs.deadline = time.Now()
			}
		}
		return d.attempts.unauthenticated.Len() == 0
	})
	exchange()
}

// TestDuplicateConnection: a peer has one connection. A client that opens another one in its name gets labelDuplicate.
func TestDuplicateConnection(t *testing.T) {
	d, at := openTarget(t)
	authenticate(t, d, at, 1)
	c := dial(t, at)
	var x transcript
	x.hello = hello{from: 1, size: 3, options: optionChecksum, session: session{2}}
	write(t, c, x.helloMessage(&d.settings.key))
	if err := x.parseChallenge(readReply(t, d, c, challengeBytes), &d.settings.key); err != nil {
		t.Fatal(err)
	}
	write(t, c, x.positionMessage(&d.settings.key, labelProof, 0))
	b := readReply(t, d, c, positionBytes+1)
	if _, ok := x.parsePosition(b, &d.settings.key, labelDuplicate); !ok {
		t.Errorf("%x", b)
	}
}

// resume connects to a target as peer 1 again, and returns the transcript and the verdict.
func resume(t *testing.T, d *Domain, at string, s session, position uint64) (x transcript, verdict []byte) {
	t.Helper()
	c := dial(t, at)
	x.hello = hello{from: 1, size: 3, options: optionChecksum, session: s}
	write(t, c, x.helloMessage(&d.settings.key))
	if err := x.parseChallenge(readReply(t, d, c, challengeBytes), &d.settings.key); err != nil {
		t.Fatal(err)
	}
	write(t, c, x.positionMessage(&d.settings.key, labelProof, position))
	return x, readReply(t, d, c, positionBytes)
}

// TestEnded: a peer that has closed, and then asks whether its shutdown has arrived, learns that it has.
func TestEnded(t *testing.T) {
	d, at := openTarget(t)
	c, _, _ := authenticate(t, d, at, 1)
	write(t, c, joinFrames(kindMessage, "hello", kindShutdown, ""))
	for _, want := range []fabric.EventKind{fabric.Message, fabric.PeerDown} {
		if ev := pollUntil(t, d, func() bool { return false }); ev.Kind != want {
			t.Fatalf("%+v", ev)
		}
	}
	x, verdict := resume(t, d, at, session{1}, 0)
	if position, ok := x.parsePosition(verdict, &d.settings.key, labelEnded); !ok || position != 2*headerBytes+5 {
		t.Errorf("position %d, %v", position, ok)
	}
}

// TestInvalidPosition: a peer that says it has received more than was sent is lost.
func TestInvalidPosition(t *testing.T) {
	d, at := openTarget(t)
	authenticate(t, d, at, 1)
	c := dial(t, at)
	var x transcript
	x.hello = hello{from: 1, size: 3, options: optionChecksum, session: session{1}}
	write(t, c, x.helloMessage(&d.settings.key))
	if err := x.parseChallenge(readReply(t, d, c, challengeBytes), &d.settings.key); err != nil {
		t.Fatal(err)
	}
	write(t, c, x.positionMessage(&d.settings.key, labelProof, 1))
	if ev := pollUntil(t, d, func() bool { return false }); ev.Kind != fabric.PeerDown || !errors.Is(ev.Err, fabric.ErrCorrupt) {
		t.Errorf("%+v", ev)
	}
}

// TestCorruptFrames: a peer that sends something that no peer sends is lost, as corrupt, after what it has sent before. The other
// peers are not affected.
func TestCorruptFrames(t *testing.T) {
	for name, bad := range map[string][]byte{
		"kind":        invalidFrame(99, 0),
		"none":        invalidFrame(0, 0),
		"long":        invalidFrame(kindMessage, 1<<24-1),
		"longer":      invalidFrame(kindMessage, maxSend+1),
		"request":     joinFrames(kindRead, "too short"),
		"data":        joinFrames(kindData, "that no Read asked for"),
		"no data":     joinFrames(kindData, ""),
		"refusal":     joinFrames(kindRefusal, ""),
		"many":        bytes.Repeat(joinFrames(kindRead, strings.Repeat("x", requestBytes)), 10*maxReads),
		"long bye":    invalidFrame(kindShutdown, 1),
		"after bytes": joinFrames(kindMessage, "", kindData, "x"),
		"push":        joinFrames(kindPush, "too short"),
		"no push":     joinFrames(kindPush, string(request{}.append(nil))),
		"long push":   joinFrames(kindPush, string(request{bytes: PushBytes + 1}.append(nil))),
		"ack":         invalidAck(),
		"address":     joinFrames(kindAddress, "nowhere"),
		"dropped":     invalidFrame(kindDropped, 1),
	} {
		d, at := openTarget(t)
		c, _, _ := authenticate(t, d, at, 1)
		write(t, c, append(joinFrames(kindMessage, "before"), bad...))
		if ev := pollUntil(t, d, func() bool { return false }); string(ev.Data) != "before" {
			t.Errorf("%s: %+v", name, ev)
		}
		ev := pollUntil(t, d, func() bool { return false })
		for ev.Kind == fabric.Message {
			ev = pollUntil(t, d, func() bool { return false })
		}
		if ev.Kind != fabric.PeerDown || !errors.Is(ev.Err, fabric.ErrPeerDown) || !errors.Is(ev.Err, fabric.ErrCorrupt) {
			t.Errorf("%s: %+v", name, ev)
		}
	}
}

// receiveSome receives some of b, as receiveFrames does, and returns how much.
func receiveSome(e *endpoint, b []byte) (n int) {
	if n = copy(e.reading.memory.into, b); n > 0 {
		e.addMemory(n)
	}
	if skip := min(e.reading.memory.skip, len(b)-n); skip > 0 {
		e.skipMemory(b[n : n+skip])
		n += skip
	}
	k := copy(e.in.room(&e.d.buffers), b[n:])
	e.in.filled += k
	return n + k
}

// FuzzPeer: whatever an authenticated peer sends, and however the kernel fragments it, the domain neither fails nor reads beyond
// its buffers.
func FuzzPeer(f *testing.F) {
	body := strings.Repeat("x", requestBytes)
	f.Add(joinFrames(kindMessage, "hello", kindRead, body, kindMessage, "", kindShutdown, ""), uint16(256+3))
	f.Add(joinFrames(kindData, "0123456789", kindMessage, "behind", kindData, "abcdef", kindRefusal, ""), uint16(256+20))
	const came = "what came"
	q := request{bytes: uint64(len(came)), sum: addSum(0, []byte(came))}
	along := append(joinFrames(kindMessage, "push", kindPush, string(q.append(nil))), came...)
	f.Add(append(along, joinFrames(kindMessage, "behind", kindDropped, "")...), uint16(256+6))
	f.Add(append(bytes.Clone(along), along...), uint16(256+31))
	f.Add(append(bytes.Clone(along), invalidFrame(99, 0)...), uint16(256+107)) // behind memory that ends its Read
	f.Add(append(bytes.Clone(along), joinFrames(kindData, "0123456789", kindData, "abcdef", kindData, "xxxxx")...), uint16(256+63))
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		d := &Domain{peers: make([]*endpoint, 2), epoll: -1, timer: timer{fd: -1, ticked: time.Now()}, clock: time.Now,
			settings: settings{options: options(cut>>8) & optionChecksum}}
		d.progress.init(d)
		d.closed = true // for the timer, which has no socket
		e := d.endpoint(1)
		e.state = up
		dst := make([]byte, 16)
		e.reading.reads.push(pendingRead{dst: dst, token: 1})
		e.reading.reads.push(pendingRead{dst: make([]byte, 5), token: 2})
		e.reading.reads.requested = 2
		evs := make([]fabric.Event, 8)
		token := uint64(2)
		ended := []bool{true, false, false} // by token
		end := func(token uint64) {
			if ended[token] {
				t.Fatalf("Read %d has ended twice", token)
			}
			ended[token] = true
		}
		for step := int(cut&255) + 1; len(b) > 0 && e.downErr == nil; {
			if !e.reading.pushes.arrived {
				b = b[receiveSome(e, b[:min(step, len(b))]):]
			}
			if err := e.parseFrames(); err != nil {
				if !errors.Is(err, fabric.ErrCorrupt) && err != errChecksum {
					t.Fatal(err)
				}
				e.markDown(err)
			}
			if e.in.delivered > e.in.parsed || e.in.parsed > e.in.filled || len(d.doneEvents) > int(token) {
				t.Fatalf("delivered %d, parsed %d, filled %d, %d reads done", e.in.delivered, e.in.parsed, e.in.filled, len(d.doneEvents))
			}
			d.deliver(evs)
			if e.reading.pushes.arrived && step%2 == 0 {
				token++
				ended = append(ended, false)
				if e.readPushed(make([]byte, step%50), token) {
					end(token)
				}
				e.reading.reads.requested = min(e.reading.reads.waiting(), maxReads) // as if the request had gone
			}
			d.releaseBorrowed()
		}
		e.markDown(io.EOF)
		for _, ev := range d.doneEvents {
			if ev.Kind != fabric.Done {
				t.Fatalf("%+v", ev)
			}
			end(ev.Token)
		}
		if slices.Contains(ended, false) {
			t.Fatalf("Reads that have not ended: %v", ended)
		}
	})
}
