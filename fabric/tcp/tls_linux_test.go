package tcp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/encrypt"
	"github.com/ibrun/ibrun/internal/waittest"
)

// middle is a host between two peers: one connects to it in place of the other. It counts and keeps the bytes that it forwards.
type middle struct {
	addr []byte // as of the peer

	mu   sync.Mutex
	open []net.Conn
	sent [2][]byte // what the client and the server have sent on the first connection
	flip int       // byte of the client, on the first connection, in which a bit is changed; 0: none
}

// newMiddle forwards connections to a domain. start is called with both connections before anything else is forwarded, and
// returns those to forward; nil: they are forwarded from the beginning.
func newMiddle(t *testing.T, to *Domain, start func(client, server net.Conn) (net.Conn, net.Conn, error)) *middle {
	t.Helper()
	places, err := parseAddress(to.Addr())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &middle{addr: appendAddress(nil, []netip.AddrPort{netip.MustParseAddrPort(l.Addr().String())})}
	var done sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		m.mu.Lock()
		for _, c := range m.open {
			c.Close()
		}
		m.mu.Unlock()
		done.Wait()
	})
	done.Go(func() {
		for first := true; ; first = false {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", places[0].String())
			if err != nil {
				client.Close()
				continue
			}
			m.mu.Lock()
			m.open = append(m.open, client, server)
			m.mu.Unlock()
			done.Go(func() { m.forward(client, server, first, start) })
		}
	})
	return m
}

// forward forwards one connection until either side has closed it.
func (m *middle) forward(client, server net.Conn, first bool, start func(client, server net.Conn) (net.Conn, net.Conn, error)) {
	defer client.Close()
	defer server.Close()
	if start != nil {
		var err error
		if client, server, err = start(client, server); err != nil {
			return
		}
	}
	ended := make(chan struct{}, 2)
	for side, ends := range [2][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			b := make([]byte, 64<<10)
			for {
				n, err := ends[0].Read(b)
				if first {
					m.keep(side, b[:n])
				}
				if err != nil {
					break
				}
				if _, err := ends[1].Write(b[:n]); err != nil {
					break
				}
			}
			ended <- struct{}{}
		}()
	}
	<-ended
	client.Close()
	server.Close()
	<-ended
}

// keep appends to sent, and changes the bit.
func (m *middle) keep(side int, b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.flip - len(m.sent[side]); m.flip != 0 && side == 0 && i >= 0 && i < len(b) {
		b[i] ^= 4
		m.flip = 0
	}
	m.sent[side] = append(m.sent[side], b...)
}

// seen returns what both sides have sent.
func (m *middle) seen() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Join(m.sent[:], nil)
}

// encryptedTransport returns a transport with encryption.
func encryptedTransport() *Transport {
	return &Transport{Key: [32]byte{9}, Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit, Encrypt: true}
}

// pairOver opens two peers that are connected by a middle. Peer 0 is the client.
func pairOver(t *testing.T, tr *Transport, start func(client, server net.Conn) (net.Conn, net.Conn, error)) (
	ds []*Domain, es [2]fabric.Endpoint, m *middle) {
	t.Helper()
	ds = openDomains(t, tr, 2)
	m = newMiddle(t, ds[1], start)
	es[0] = connectTo(t, ds[0], 1, m.addr)
	return ds, es, m
}

// sendAll sends a message, and polls until it has arrived.
func sendAll(t *testing.T, ds []*Domain, from fabric.Endpoint, to int, text string) {
	t.Helper()
	sent := false
	waittest.Poll(t, "the message arrives", func() bool {
		if !sent {
			err := from.Send([]byte(text), nil)
			if sent = err == nil; err != nil && err != fabric.ErrAgain {
				t.Fatal(err)
			}
		}
		for i, d := range ds {
			if ev := pollOne(t, d); ev.Kind == fabric.Message && i == to {
				if string(ev.Data) != text {
					t.Fatalf("%d bytes arrived instead of the %d that were sent", len(ev.Data), len(text))
				}
				return true
			} else if ev.Kind != 0 {
				t.Fatalf("%d: %+v", i, ev)
			}
		}
		return false
	})
}

// TestCapture: a host between two peers can read what they send, unless it is encrypted: messages of all lengths, and memory.
func TestCapture(t *testing.T) {
	const canary = "canary of this test"
	for _, encrypted := range []bool{false, true} {
		tr := encryptedTransport()
		tr.Encrypt = encrypted
		ds, es, m := pairOver(t, tr, nil)
		sendAll(t, ds, es[0], 1, canary)
		es[1] = connectTo(t, ds[1], 0, nil)
		long := strings.Repeat(canary, maxEager/len(canary))
		sendAll(t, ds, es[1], 0, long)
		memory := []byte(strings.Repeat(canary, 20000))
		region, err := ds[0].Register(memory)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, len(memory))
		local, err := ds[1].Register(dst)
		if err != nil {
			t.Fatal(err)
		}
		done, err := es[1].Read(dst, local, region.Remote, 1)
		for !done && err == nil {
			pollOne(t, ds[0])
			ev := pollOne(t, ds[1])
			done, err = ev.Kind == fabric.Done, ev.Err
		}
		if err != nil || !bytes.Equal(dst, memory) {
			t.Fatalf("the memory that was read differs: %v", err)
		}
		if n := bytes.Count(m.seen(), []byte(canary)); (n == 0) != encrypted || !encrypted && n < 20000 {
			t.Errorf("encrypted: %v; the host in the middle has seen it %d times", encrypted, n)
		}
	}
}

// TestEncryptionDiffers: peers of which only one encrypts are lost to each other immediately, and both say why.
func TestEncryptionDiffers(t *testing.T) {
	with := encryptedTransport()
	without := *with
	without.Encrypt = false
	for client := range 2 {
		ds := []*Domain{openDomains(t, with, 2)[0], openDomains(t, &without, 2)[1]}
		connectTo(t, ds[client], 1-client, ds[1-client].Addr())
		for i, want := range []string{"its encryption is off, and that of this process is on: set IBRUN_ENCRYPT",
			"its encryption is on, and that of this process is off: set IBRUN_ENCRYPT"} {
			ev := fabric.Event{}
			waittest.Poll(t, want, func() bool {
				if _, err := ds[1-i].Poll(nil); err != nil { // its event remains
					t.Fatal(err)
				}
				ev = pollOne(t, ds[i])
				return ev.Kind != 0
			})
			if !errors.Is(ev.Err, fabric.ErrPeerDown) || !strings.Contains(ev.Err.Error(), want) {
				t.Errorf("peer %d connects, peer %d: %v", client, i, ev.Err)
			}
		}
	}
}

// TestMiddle: a host in the middle that terminates TLS is refused by both peers. It gets the proof of the client, which is of no
// use to it, and nothing else.
func TestMiddle(t *testing.T) {
	e, err := encrypt.New(tlsProtocol)
	if err != nil {
		t.Fatal(err)
	}
	tr := encryptedTransport()
	tr.Timeout = time.Hour // no handshake ends because the host in the middle is slow
	ds := openDomains(t, tr, 2)
	ds[1].mu.Lock()
	ds[1].settings.handshakeTimeout = time.Hour
	ds[1].mu.Unlock()
	m := newMiddle(t, ds[1], func(client, server net.Conn) (net.Conn, net.Conn, error) {
		if _, err := io.CopyN(server, client, int64(helloBytes)); err != nil {
			return nil, nil, err
		}
		if _, err := io.CopyN(client, server, int64(challengeBytes)); err != nil {
			return nil, nil, err
		}
		c, _, errClient := e.Server(client)
		s, _, errServer := e.Client(server)
		return c, s, errors.Join(errClient, errServer)
	})
	e0 := connectTo(t, ds[0], 1, m.addr)
	var ev fabric.Event
	accepted := locked(ds[1], func() bool { return ds[1].peers[0] != nil && ds[1].peers[0].state != unconnected })
	waittest.Poll(t, "peer 0 refuses the host in the middle", func() bool {
		if err := e0.Send([]byte("secret"), nil); err == nil {
			t.Fatal("peer 0 sends to the host in the middle")
		}
		if there := pollOne(t, ds[1]); there.Kind != 0 || accepted() {
			t.Fatalf("peer 1 has accepted the host in the middle: %+v", there)
		}
		ds[0].mu.Lock()
		if peer := ds[0].peers[1]; peer.conn.lastErr != nil { // of a handshake: as if the timeout had passed
			peer.conn.giveUpAt = time.Now()
		}
		ds[0].mu.Unlock()
		ev = pollOne(t, ds[0])
		return ev.Kind != 0
	})
	if ev.Kind != fabric.PeerDown ||
		!strings.Contains(ev.Err.Error(), "closed by the peer after the handshake of TLS: another host") {
		t.Errorf("peer 0: %+v", ev)
	}
	if m.mu.Lock(); len(m.sent[0]) != positionBytes || len(m.sent[1]) != 0 {
		t.Errorf("the host in the middle has seen %d bytes of the client and %d of the server", len(m.sent[0]), len(m.sent[1]))
	}
	m.mu.Unlock()
}

// TestChangedRecord: a byte that is changed on the way is noticed and counted. The message arrives as it was sent, over another
// connection.
func TestChangedRecord(t *testing.T) {
	ds, es, m := pairOver(t, encryptedTransport(), nil)
	sendAll(t, ds, es[0], 1, "before")
	m.mu.Lock()
	m.flip = len(m.sent[0]) + 1000
	m.mu.Unlock()
	sendAll(t, ds, es[0], 1, strings.Repeat("changed", 10000))
	sendAll(t, ds, es[0], 1, "afterwards")
	m.mu.Lock()
	defer m.mu.Unlock()
	_, changedThere := ds[0].Reconnects()
	again, changed := ds[1].Reconnects() // slow handshakes may replace it more than once
	if m.flip != 0 || changed != 1 || changedThere != 0 || again == 0 {
		t.Errorf("not changed: %v; noticed %d times; made again %d times", m.flip != 0, changed, again)
	}
}

// tickOften makes a domain check its connections as often as with a short timeout.
func tickOften(t *testing.T, d *Domain) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer.slowTick = 40 * time.Millisecond
	if err := d.timer.setInterval(d.timer.slowTick); err != nil {
		t.Fatal(err)
	}
}

// TestNeedsNewKey: a connection that has encrypted as much as a key should is replaced by another one, and nothing is lost.
func TestNeedsNewKey(t *testing.T) {
	tr := encryptedTransport()
	tr.Timeout = time.Hour // no handshake ends because the test is slow
	ds, es, _ := pairOver(t, tr, nil)
	for _, d := range ds { // they find soon what is to be replaced
		tickOften(t, d)
	}
	sendAll(t, ds, es[0], 1, "before")
	ds[0].mu.Lock()
	first := es[0].(*endpoint).stream.tls
	first.link.sealed = maxSessionBytes
	ds[0].mu.Unlock()
	again := [...]func() bool{
		locked(ds[0], func() bool { return ds[0].stats.reconnects != 0 }),
		locked(ds[1], func() bool { return ds[1].stats.reconnects != 0 }),
	}
	for i := 0; !again[0]() || !again[1](); i++ {
		sendAll(t, ds, es[0], 1, strings.Repeat("x", i%1000))
	}
	sendAll(t, ds, es[0], 1, "afterwards")
	same := locked(ds[0], func() bool {
		now := es[0].(*endpoint).stream.tls
		return now == first || now.needsNewKey()
	})
	if same() {
		t.Error("it has the same session")
	}
}

// TestEncryptedReplay: what a client has sent on an encrypted connection is of no use on another one.
func TestEncryptedReplay(t *testing.T) {
	ds, es, m := pairOver(t, encryptedTransport(), nil)
	sendAll(t, ds, es[0], 1, "recorded")
	m.mu.Lock()
	recorded := bytes.Clone(m.sent[0])
	m.mu.Unlock()
	places, err := parseAddress(ds[1].Addr())
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, places[0].String())
	write(t, c, recorded)
	answer := readReply(t, ds[1], c, 1<<20) // until the server closes
	if len(answer) < challengeBytes {
		t.Errorf("the replay is answered %x", answer)
	}
	sendAll(t, ds, es[0], 1, "afterwards")
}

// TestUnmappedMemory: if a peer reads memory that was unmapped in spite of its registration, that is an error, and encryption
// does not change that.
func TestUnmappedMemory(t *testing.T) {
	s := &tlsStream{link: &tlsLink{d: &Domain{}}}
	gone := unmapped(t, 1<<20)
	if n, errno := s.seal(&[maxParts][]byte{nil, gone}); errno == 0 {
		t.Errorf("%d bytes were encrypted", n)
	}
}

// unmapped returns a slice of memory to which every access is a fault, as it is to memory that is not mapped. Its addresses stay
// reserved until the end of the test: otherwise the runtime could map memory of its own there.
func unmapped(t *testing.T, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestReadWhileBorrowed: a peer that has taken as many messages as its buffer holds, and then does not poll, serves Reads.
func TestReadWhileBorrowed(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		tr := encryptedTransport()
		tr.Encrypt = encrypted
		ds := openDomains(t, tr, 2)
		e := connectTo(t, ds[0], 1, ds[1].Addr())
		sendAll(t, ds, e, 1, "connected")
		there := ds[1].peers[0]
		full := locked(ds[1], func() bool { return there.in.filled >= bufferBytes })
		sent := 0
		waittest.Poll(t, "the buffer is full", func() bool {
			if sent < 2 && e.Send(make([]byte, maxSend), nil) == nil {
				sent++
			}
			pollOne(t, ds[0])
			ds[1].mu.Lock()
			ds[1].makeProgress() // receives, and returns nothing
			ds[1].mu.Unlock()
			return full()
		})
		var evs [2]fabric.Event
		n, err := ds[1].Poll(evs[:])
		if n == 0 || err != nil || !there.in.borrowed {
			t.Fatal(n, err)
		}
		memory, dst := bytes.Repeat([]byte("memory"), 10000), make([]byte, 60000)
		far, err1 := ds[1].Register(memory)
		near, err2 := ds[0].Register(dst)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		done, err := e.Read(dst, near, far.Remote, 1)
		if !done && err == nil {
			ev := pollUntil(t, ds[0], func() bool { return false })
			done, err = ev.Kind == fabric.Done, ev.Err
		}
		if !done || err != nil || !bytes.Equal(dst, memory) {
			t.Errorf("the memory that was read differs: %v", err)
		}
		for _, ev := range evs[:n] {
			if len(ev.Data) != maxSend || !bytes.Equal(ev.Data, make([]byte, maxSend)) {
				t.Error("a message has changed before the next Poll")
			}
		}
	}
}
