package tcp

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
)

// victim opens peer 0 of 3 over loopback.
func victim(tb testing.TB) (*Domain, string) {
	tr := &Transport{Interfaces: []string{"127.0.0.1/32"}, Linger: 10 * time.Millisecond}
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
	places, err := parseAddress(d.Addr())
	if err != nil {
		tb.Fatal(err)
	}
	return d, places[0].String()
}

// dial connects to a victim from outside.
func dial(tb testing.TB, at string) net.Conn {
	c, err := net.Dial("tcp", at)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() }) // it may be closed already
	return c
}

// spin polls a victim until f is true, or it has an event.
func spin(tb testing.TB, d *Domain, f func() bool) (ev fabric.Event) {
	var evs [1]fabric.Event
	for end := time.Now().Add(time.Minute); !f(); {
		n, err := d.Poll(evs[:])
		if err != nil {
			tb.Fatal(err)
		}
		if n == 1 {
			return evs[0]
		}
		if time.Now().After(end) {
			tb.Fatal("nothing happens")
		}
	}
	return fabric.Event{}
}

// answer reads what a victim sends, at most n bytes; fewer if it closes.
func answer(tb testing.TB, d *Domain, c net.Conn, n int) []byte {
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
	ev := spin(tb, d, func() bool {
		select {
		case k = <-got:
			return true
		default:
			return false
		}
	})
	if ev.Kind != 0 || k < 0 {
		tb.Fatalf("event %+v, %d bytes came", ev, k)
	}
	return b[:k]
}

func write(tb testing.TB, c net.Conn, b []byte) {
	if _, err := c.Write(b); err != nil {
		tb.Fatal(err)
	}
}

// enter greets a victim as its peer number from, and returns what was said as well.
func enter(tb testing.TB, d *Domain, at string, from uint32) (c net.Conn, hello, proof []byte) {
	c = dial(tb, at)
	var t transcript
	t.hello.from, t.hello.size = from, 3
	hello = t.message(&d.key)
	write(tb, c, hello)
	if err := t.parseChallenge(answer(tb, d, c, challengeBytes), &d.key); err != nil {
		tb.Fatal(err)
	}
	proof = t.mac(&d.key, labelProof)
	write(tb, c, proof)
	if b := answer(tb, d, c, macBytes); !t.says(&d.key, labelWelcome, b) {
		tb.Fatalf("not welcome: %x", b)
	}
	return c, hello, proof
}

// TestStrangers: whoever does not know the secret is sent nothing and changes nothing, whatever it tries.
func TestStrangers(t *testing.T) {
	d, at := victim(t)
	friend, hello, proof := enter(t, d, at, 1)
	chat := func() {
		t.Helper()
		var b [headerBytes]byte
		putFrame(b[:], kindMessage, 2)
		write(t, friend, append(b[:], "hi"...))
		if ev := spin(t, d, func() bool { return false }); ev.Kind != fabric.Message || ev.Peer != 1 || string(ev.Data) != "hi" {
			t.Fatalf("%+v", ev)
		}
	}
	stale := transcript{}
	stale.hello.from, stale.hello.size = 2, 3
	otherKey := [32]byte{1}
	for name, b := range map[string][]byte{
		"nothing":      nil,
		"HTTP":         []byte("GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: something that is long enough for a hello\r\n\r\n"),
		"zeroes":       make([]byte, 1<<16),
		"garbage":      bytes.Repeat([]byte("ibrunTCP"), 1000),
		"stale secret": stale.message(&otherKey),
		"frames":       bytes.Repeat([]byte{0, 0, 0, 0, 1, 0, 0, 0}, 100),
	} {
		c := dial(t, at)
		_, _ = c.Write(b) // it may be closed before all has gone
		if tcp := c.(*net.TCPConn); len(b) < helloBytes {
			if err := tcp.CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		if got := answer(t, d, c, 1); len(got) != 0 {
			t.Errorf("%s is answered %x", name, got)
		}
		chat()
	}
	c := dial(t, at) // who replays a hello is challenged anew, and cannot replay the proof
	write(t, c, hello)
	answer(t, d, c, challengeBytes)
	write(t, c, proof)
	if got := answer(t, d, c, 1); len(got) != 0 {
		t.Errorf("a replay is answered %x", got)
	}
	chat()
	for n := range 3 * strangers { // those who say nothing, or begin to
		write(t, dial(t, at), hello[:n%helloBytes])
	}
	chat()
	enter(t, d, at, 2) // finds room in spite of them
	chat()
	if len(d.greetings) > strangers+1 {
		t.Errorf("%d strangers are listened to", len(d.greetings))
	}
	spin(t, d, func() bool { // they do not stay for ever
		for _, g := range d.greetings {
			if g != nil {
				g.until = time.Now()
			}
		}
		return d.foreign == 0
	})
	chat()
}

// TestSecond: a peer has one connection. Another one in its name is told so.
func TestSecond(t *testing.T) {
	d, at := victim(t)
	enter(t, d, at, 1)
	c := dial(t, at)
	var x transcript
	x.hello.from, x.hello.size = 1, 3
	write(t, c, x.message(&d.key))
	if err := x.parseChallenge(answer(t, d, c, challengeBytes), &d.key); err != nil {
		t.Fatal(err)
	}
	write(t, c, x.mac(&d.key, labelProof))
	if b := answer(t, d, c, macBytes+1); !x.says(&d.key, labelBusy, b) {
		t.Errorf("%x", b)
	}
}

// frames joins frames.
func frames(fs ...any) (b []byte) {
	for i := 0; i < len(fs); i += 2 {
		var h [headerBytes]byte
		body := fs[i+1].(string)
		putFrame(h[:], fs[i].(kind), len(body))
		b = append(append(b, h[:]...), body...)
	}
	return b
}

// TestLies: a peer that writes what no peer writes is lost, as corrupt, after what it has sent before; the others stay.
func TestLies(t *testing.T) {
	for name, lie := range map[string][]byte{
		"kind":        {0, 0, 0, 0, 99, 0, 0, 0},
		"none":        make([]byte, 8),
		"padding":     {0, 0, 0, 0, 1, 1, 0, 0},
		"long":        {255, 255, 255, 255, 1, 0, 0, 0},
		"longer":      {65, 0, 2, 0, 1, 0, 0, 0}, // than maxSend by one
		"request":     frames(kindRead, "too short"),
		"data":        frames(kindData, "that nobody has asked for"),
		"no data":     frames(kindData, ""),
		"refusal":     frames(kindRefusal, ""),
		"many":        bytes.Repeat(frames(kindRead, strings.Repeat("x", requestBytes)), 10*window),
		"long bye":    {1, 0, 0, 0, byte(kindBye), 0, 0, 0},
		"after bytes": frames(kindMessage, "", kindData, "x"),
		"push":        frames(kindPush, "too short"),
		"no push":     frames(kindPush, string(request{}.append(nil))),
		"long push":   frames(kindPush, string(request{bytes: PushBytes + 1}.append(nil))),
		"dropped":     {1, 0, 0, 0, byte(kindDropped), 0, 0, 0},
	} {
		d, at := victim(t)
		c, _, _ := enter(t, d, at, 1)
		write(t, c, append(frames(kindMessage, "before"), lie...))
		if ev := spin(t, d, func() bool { return false }); string(ev.Data) != "before" {
			t.Errorf("%s: %+v", name, ev)
		}
		ev := spin(t, d, func() bool { return false })
		for ev.Kind == fabric.Message {
			ev = spin(t, d, func() bool { return false })
		}
		if ev.Kind != fabric.PeerDown || !errors.Is(ev.Err, fabric.ErrPeerDown) || !errors.Is(ev.Err, fabric.ErrCorrupt) {
			t.Errorf("%s: %+v", name, ev)
		}
	}
}

// take receives some of b, as pump does, and returns how much.
func take(e *endpoint, b []byte) (n int) {
	if n = copy(e.land, b); n > 0 {
		e.landed(n)
	}
	skip := min(e.pushes.skip, len(b)-n)
	e.pushes.skip -= skip
	n += skip
	k := copy(e.room(), b[n:])
	e.have += k
	return n + k
}

// FuzzPeer: whatever an authenticated peer sends, and however the kernel cuts it, the domain neither fails nor reads beyond.
func FuzzPeer(f *testing.F) {
	f.Add(frames(kindMessage, "hello", kindRead, strings.Repeat("x", requestBytes), kindMessage, "", kindBye, ""), uint16(3))
	f.Add(frames(kindData, "0123456789", kindMessage, "behind", kindData, "abcdef", kindRefusal, ""), uint16(20))
	along := append(frames(kindMessage, "look", kindPush, string(request{bytes: 9}.append(nil))), "what came"...)
	f.Add(append(along, frames(kindMessage, "behind", kindDropped, "")...), uint16(6))
	f.Add(append(bytes.Clone(along), along...), uint16(31))
	f.Add(append(bytes.Clone(along), frames(kindData, "0123456789", kindData, "abcdef", kindData, "xxxxx")...), uint16(63))
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		d := &Domain{peers: make([]*endpoint, 2), epoll: -1, timer: timer{fd: -1}}
		d.progress.init(d)
		d.closed = true // for the timer, which has no socket to look at
		e := d.endpoint(1)
		e.state = up
		dst := make([]byte, 16)
		e.reads.push(reading{dst: dst, token: 1})
		e.reads.push(reading{dst: make([]byte, 5), token: 2})
		e.reads.asked = 2
		evs := make([]fabric.Event, 8)
		token := uint64(2)
		ended := []bool{true, false, false} // by token
		end := func(token uint64) {
			if ended[token] {
				t.Fatalf("Read %d has ended twice", token)
			}
			ended[token] = true
		}
		for step := int(cut) + 1; len(b) > 0 && e.end == nil; {
			if !e.pushes.here {
				b = b[take(e, b[:min(step, len(b))]):]
			}
			if err := e.scan(); err != nil {
				if !errors.Is(err, fabric.ErrCorrupt) {
					t.Fatal(err)
				}
				e.lose(err)
			}
			if e.taken > e.seen || e.seen > e.have || len(d.done) > int(token) {
				t.Fatalf("taken %d, seen %d, have %d, %d reads done", e.taken, e.seen, e.have, len(d.done))
			}
			d.deliver(evs)
			if e.pushes.here && step%2 == 0 {
				token++
				ended = append(ended, false)
				if e.readPushed(make([]byte, step%50), token) {
					end(token)
				}
				e.reads.asked = min(e.reads.waiting(), window) // as if the request had gone
			}
			d.endLoans()
		}
		e.lose(io.EOF)
		for _, ev := range d.done {
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
