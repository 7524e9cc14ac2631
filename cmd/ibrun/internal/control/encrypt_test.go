package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/encrypt"
	"github.com/ibrun/ibrun/internal/waittest"
)

// encrypted returns a security that encrypts.
func encrypted(t *testing.T, fill byte) Security {
	t.Helper()
	s, err := NewSecurity(auth.NewSecret(bytes.Repeat([]byte{fill}, 32)), true)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// relay is a host between the nodes. It forwards each connection with forward, and keeps what the client and the server sent.
type relay struct {
	listener net.Listener
	mu       sync.Mutex
	seen     bytes.Buffer // all bytes, in both directions
	first    []byte       // what the first client sent

	connections int
}

// newRelay forwards connections to addr. change may change the bytes of a client or of the server; nil: nothing is changed.
func newRelay(t *testing.T, addr string, forward func(r *relay, client, server net.Conn)) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l}
	var all sync.WaitGroup // the goroutines, which may report errors
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				client.Close()
				return
			}
			all.Go(func() {
				defer context.AfterFunc(t.Context(), func() { // the context ends before the cleanup begins
					client.Close()
					server.Close()
				})()
				forward(r, client, server)
			})
		}
	})
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

// bytesSeen returns what has been sent in both directions.
func (r *relay) bytesSeen() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.seen.Bytes())
}

// copyAll forwards both directions unchanged.
func (r *relay) copyAll(client, server net.Conn) { r.copyChanged(client, server, nil) }

// copyChanged forwards both directions. change is called with the bytes of the client, and the number of those before.
func (r *relay) copyChanged(client, server net.Conn, change func(b []byte, at int)) {
	oneWay := func(to, from net.Conn, change func([]byte, int), sent *[]byte) {
		defer to.Close()
		b := make([]byte, 64<<10)
		for at := 0; ; {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			if change != nil {
				change(b[:n], at)
			}
			at += n
			r.mu.Lock()
			r.seen.Write(b[:n])
			if sent != nil {
				*sent = append(*sent, b[:n]...)
			}
			r.mu.Unlock()
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
	}
	go oneWay(client, server, nil, nil)
	r.mu.Lock()
	r.connections++
	var first *[]byte
	if r.first == nil {
		r.first, first = []byte{}, &r.first
	}
	r.mu.Unlock()
	oneWay(server, client, change, first)
}

// expectNoConn fails the test if the listener accepts a connection soon.
func expectNoConn(t *testing.T, l *Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err == nil {
			err = fmt.Errorf("it has accepted node %d", c.Node())
		}
		ended <- err
	}()
	waittest.Nothing(t, 50*time.Millisecond, "node 0 does not wait any more", ended)
	cancel()
	if err := waittest.Receive(t, "Accept returns", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("node 0: %v", err)
	}
}

// TestCapture: a message can be read between the nodes, unless it is encrypted. Encrypted messages of all lengths arrive, and a
// message that was sent before Close does.
func TestCapture(t *testing.T) {
	canary := []byte("canary: 10.1.2.3 exited with 7")
	for _, encrypts := range []bool{false, true} {
		s := testSecret(1)
		if encrypts {
			s = encrypted(t, 1)
		}
		l := testListener(t, s)
		r := newRelay(t, l.Addr().String(), (*relay).copyAll)
		one, err := Dial(t.Context(), r.addr(), s, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		zero, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range [][2]*Conn{{one, zero}, {zero, one}} {
			for _, message := range [][]byte{canary, {}, bytes.Repeat([]byte{5}, MaxMessage), canary} {
				if err := dir[0].Send(message); err != nil {
					t.Fatal(err)
				}
				if got, err := dir[1].Recv(); err != nil || !bytes.Equal(got, message) {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
			}
		}
		if err := zero.Send([]byte("last")); err != nil {
			t.Fatal(err)
		}
		go zero.CloseWithin(time.Minute)
		if got, err := one.Recv(); err != nil || string(got) != "last" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := one.Recv(); err != io.EOF {
			t.Errorf("after the last message: %v", err)
		}
		one.Close()
		seen := r.bytesSeen()
		for what, b := range map[string][]byte{"a message": canary, "the handshake": []byte("ibrun/")} {
			if bytes.Contains(seen, b) == encrypts {
				t.Errorf("encrypted: %v; %s is among the %d bytes on the wire: %v", encrypts, what, len(seen), !encrypts)
			}
		}
	}
}

// TestOtherMode: if only one of two nodes encrypts, both report it immediately, and name the other. It is not a matter of a
// time-out: the context has none.
func TestOtherMode(t *testing.T) {
	plain, secure := testSecret(1), encrypted(t, 1)
	for _, c := range []struct {
		zero, one     Security
		atZero, atOne string
	}{
		{secure, plain, "was started without --encrypt, and this node with it", "was started with --encrypt, and this node without it"},
		{plain, secure, "was started with --encrypt, and this node without it", "was started without --encrypt, and this node with it"},
	} {
		l := testListener(t, c.zero)
		if _, err := Dial(t.Context(), l.Addr().String(), c.one, 1, 2); !errors.Is(err, ErrEncrypt) ||
			!strings.Contains(err.Error(), "node 0 at 127.0.0.1") || !strings.Contains(err.Error(), c.atOne) {
			t.Errorf("node 1: %v", err)
		}
		if _, err := l.Accept(t.Context()); !errors.Is(err, ErrEncrypt) || !strings.Contains(err.Error(), "node 1 at 127.0.0.1") ||
			!strings.Contains(err.Error(), c.atZero) {
			t.Errorf("node 0: %v", err)
		}
	}
}

// TestStrangersMode: clients without the secret do not make node 0 report another choice of encryption, whatever they begin with.
func TestStrangersMode(t *testing.T) {
	for _, zero := range []Security{testSecret(1), encrypted(t, 1)} {
		l := testListener(t, zero)
		for _, stranger := range []Security{testSecret(2), encrypted(t, 2)} {
			if _, err := Dial(t.Context(), l.Addr().String(), stranger, 1, 2); !errors.Is(err, ErrSecret) {
				t.Errorf("the stranger: %v", err)
			}
		}
		expectNoConn(t, l)
	}
}

// TestMiddle: a host between the nodes that terminates TLS with certificates of its own is refused by both.
func TestMiddle(t *testing.T) {
	s := encrypted(t, 1)
	l := testListener(t, s)
	e, err := encrypt.New(tlsProtocol)
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, l.Addr().String(), func(r *relay, client, server net.Conn) {
		c, _, errClient := e.Server(client)
		s, _, errServer := e.Client(server)
		if errClient != nil || errServer != nil {
			t.Errorf("terminate TLS: %v, %v", errClient, errServer)
			client.Close()
			server.Close()
			return
		}
		r.copyAll(c, s)
	})
	_, err = Dial(t.Context(), r.addr(), s, 1, 2)
	if !errors.Is(err, ErrSecret) || !strings.Contains(err.Error(), "terminates TLS") {
		t.Errorf("node 1: %v", err)
	}
	expectNoConn(t, l)
	waitRefused(t, l, "terminates TLS")
	if !bytes.Contains(r.bytesSeen(), []byte(magicEncrypt)) {
		t.Error("the host in the middle has not seen the handshake: this test does not show anything")
	}
}

// TestDowngrade: a host between two nodes that encrypt makes each believe that the other does not. No connection results.
func TestDowngrade(t *testing.T) {
	s := encrypted(t, 1)
	l := testListener(t, s)
	r := newRelay(t, l.Addr().String(), func(r *relay, client, server net.Conn) {
		first := make([]byte, 1)
		if _, err := io.ReadFull(client, first); err != nil {
			t.Error(err)
		}
		if first[0] == tlsHandshakeRecord {
			io.WriteString(client, magicPlain)
			io.CopyN(io.Discard, client, 100)
			client.Close()
			server.Close()
			return
		}
		r.copyAll(&unreadConn{client, first}, server)
	})
	if _, err := Dial(t.Context(), r.addr(), s, 1, 2); !errors.Is(err, errChanged) {
		t.Errorf("node 1: %v", err)
	}
	expectNoConn(t, l)
	// The same, and the host changes the magic of the client as well. It sees that without the first byte.
	r = newRelay(t, l.Addr().String(), func(r *relay, client, server net.Conn) {
		first := make([]byte, 1)
		io.ReadFull(client, first)
		if first[0] == tlsHandshakeRecord {
			io.WriteString(client, magicPlain)
			io.CopyN(io.Discard, client, 100)
			client.Close()
			server.Close()
			return
		}
		r.copyChanged(&unreadConn{client, first}, server, func(b []byte, at int) {
			copy(b, bytes.ReplaceAll(b, []byte("brun/e"), []byte("brun/n")))
		})
	})
	if _, err := Dial(t.Context(), r.addr(), s, 1, 2); !errors.Is(err, ErrSecret) && !errors.Is(err, errChanged) {
		t.Errorf("node 1, with its magic changed: %v", err)
	}
	expectNoConn(t, l)
}

// TestChangedByte: a byte that is changed on the way breaks the TLS session. Another one is made, and the message arrives as it
// was sent.
func TestChangedByte(t *testing.T) {
	s := encrypted(t, 1)
	l := testListener(t, s)
	flip := make(chan struct{}, 1)
	r := newRelay(t, l.Addr().String(), func(r *relay, client, server net.Conn) {
		r.copyChanged(client, server, func(b []byte, _ int) {
			select {
			case <-flip:
				b[len(b)/2] ^= 1
			default:
			}
		})
	})
	one, err := Dial(t.Context(), r.addr(), s, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	zero, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	waitReachable(t, zero) // until then node 0 waits only for a short time for the next connection
	flip <- struct{}{}
	for _, message := range []string{strings.Repeat("changed", 1000), "afterwards"} {
		if err := one.Send([]byte(message)); err != nil {
			t.Fatal(err)
		}
		if got, err := zero.Recv(); err != nil || string(got) != message {
			t.Errorf("received %d bytes instead of %d: %v", len(got), len(message), err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(flip) != 0 || r.connections < 2 {
		t.Errorf("a byte was changed: %v; connections: %d", len(flip) == 0, r.connections)
	}
}

// TestReplay: what a node has sent on an encrypted connection is of no use on another one.
func TestReplay(t *testing.T) {
	s := encrypted(t, 1)
	l := testListener(t, s)
	r := newRelay(t, l.Addr().String(), (*relay).copyAll)
	one, err := Dial(t.Context(), r.addr(), s, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	zero, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go zero.Close()
	one.Close()
	r.mu.Lock()
	recorded := bytes.Clone(r.first)
	r.mu.Unlock()
	again, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.Write(recorded); err != nil {
		t.Fatal(err)
	}
	waittest.Bound(t, again)
	answer, err := io.ReadAll(again)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("node 0 keeps the connection: it has sent %d bytes", len(answer))
	}
	expectNoConn(t, l)
}
