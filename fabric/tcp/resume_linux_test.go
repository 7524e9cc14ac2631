package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// side is one of two peers with checked traffic between them: numbered messages, Reads, and pushes.
type side struct {
	t        *testing.T
	r        *rand.Rand
	d        *Domain
	ep       fabric.Endpoint
	memory   []byte // what the peer reads
	region   fabric.Region
	peer     *side
	into     []byte // where the Read in progress goes
	local    fabric.Region
	want     []byte // what it reads; nil: none
	reads    uint64
	readsEnd int
	sent     uint64
	got      uint64
	ending   bool   // the peer closes: Reads may fail
	via      *relay // to the peer: attempts to connect end that it has cut off; nil: they end after the timeout
	down     error
}

// hurry makes attempts to connect end that the relay has cut off from the peer. Another attempt follows.
func (s *side) hurry() {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	for _, hs := range s.d.attempts.handshakes {
		if hs == nil || hs.ep == nil || hs.phase == connecting {
			continue
		}
		local, err := unix.Getsockname(hs.stream.fd)
		if err != nil {
			s.t.Fatal(err)
		}
		if in, ok := local.(*unix.SockaddrInet4); ok && s.via.hasHalf(netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port))) {
			hs.deadline = hs.started
		}
	}
}

// newSides opens two domains that reach each other through relays.
func newSides(t *testing.T, tr *Transport, r *rand.Rand, choose [2]func() (fault, int)) (sides [2]*side, relays [2]*relay) {
	t.Helper()
	ds := openDomains(t, tr, 2)
	for i := range sides {
		s := &side{t: t, r: r, d: ds[i], memory: make([]byte, 5<<20), into: make([]byte, 5<<20)}
		for k := 0; k < len(s.memory); k += 8 {
			binary.LittleEndian.PutUint64(s.memory[k:], r.Uint64())
		}
		var err1, err2 error
		s.region, err1 = s.d.Register(s.memory)
		s.local, err2 = s.d.Register(s.into)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		sides[i] = s
		relays[i] = startRelay(t, ds[i], choose[i])
	}
	for i, s := range sides {
		s.peer = sides[1-i]
		s.ep = connectTo(t, s.d, 1-i, relays[1-i].address())
	}
	return sides, relays
}

// send sends the next message: its number, a hash of the rest, and the rest.
func (s *side) send() {
	n := 0
	if s.r.IntN(4) > 0 {
		n = s.r.IntN(1 << s.r.IntN(18))
	}
	n = min(n, maxSend-16)
	from := s.r.IntN(len(s.memory) - n)
	payload := s.memory[from : from+n]
	header := binary.LittleEndian.AppendUint64(make([]byte, 0, 40), s.sent)
	header = binary.LittleEndian.AppendUint64(header, hash(payload))
	var err error
	switch s.r.IntN(4) {
	case 0: // announce memory, which the peer may read
		q := request{src: s.region.Remote, bytes: uint64(s.r.IntN(min(len(s.memory), 1<<s.r.IntN(23)))) + 1}
		q.src.Addr = uint64(s.r.IntN(len(s.memory) - int(q.bytes) + 1))
		header = q.append(binary.LittleEndian.AppendUint64(header[:8], hash(nil)))
		err = s.ep.(fabric.Pusher).Push(header, q.src, int(q.bytes))
	case 1: // every second block of a part of the memory
		src := &strided{s.memory[from:], 1 + s.r.IntN(1<<s.r.IntN(12))}
		n = max(0, min(n, 3*(len(src.mem)/2-src.length)/4))
		packed := make([]byte, n)
		src.Pack(packed, int64(n/3))
		header = binary.LittleEndian.AppendUint64(header[:8], hash(packed))
		err = s.ep.(fabric.Gatherer).SendFrom(header, src, int64(n/3), n)
	default:
		err = s.ep.Send(header, payload)
	}
	if err == nil {
		s.sent++
	} else if err != fabric.ErrAgain {
		s.t.Fatal(err)
	}
}

func hash(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// read reads from the peer's memory.
func (s *side) read(q request) {
	n := min(q.bytes, uint64(len(s.into)))
	s.want = s.peer.memory[q.src.Addr:][:n]
	clear(s.into[:n])
	s.reads++
	done, err := s.ep.Read(s.into[:n], s.local, q.src, s.reads)
	if err != nil {
		if !s.ending {
			s.t.Fatal(err)
		}
		s.want = nil
	}
	if done {
		s.checkRead()
	}
}

func (s *side) checkRead() {
	if !bytes.Equal(s.want, s.into[:len(s.want)]) {
		s.t.Fatalf("read %d of %d bytes: wrong bytes", s.reads, len(s.want))
	}
	s.want = nil
	s.readsEnd++
}

// reconnects returns how many connections were made again.
func (s *side) reconnects() uint64 {
	n, _ := s.d.Reconnects()
	return n
}

// mismatches returns how often changed bytes were found.
func (s *side) mismatches() uint64 {
	_, n := s.d.Reconnects()
	return n
}

// poll checks what has arrived.
func (s *side) poll() {
	if s.via != nil {
		s.hurry()
	}
	var evs [4]fabric.Event
	n, err := s.d.Poll(evs[:])
	if err != nil {
		s.t.Fatal(err)
	}
	for _, ev := range evs[:n] {
		switch ev.Kind {
		case fabric.Message:
			number := binary.LittleEndian.Uint64(ev.Data)
			if number != s.got {
				s.t.Fatalf("message %d arrived after %d messages", number, s.got)
			}
			s.got++
			rest := ev.Data[16:]
			if q, ok := parseRequest(rest); ok && len(rest) == requestBytes && q.src.Key == s.peer.region.Remote.Key {
				if s.want == nil && s.r.IntN(3) > 0 {
					s.read(q)
				}
			} else if sum := binary.LittleEndian.Uint64(ev.Data[8:]); sum != hash(rest) {
				s.t.Fatalf("message %d: wrong bytes", number)
			}
		case fabric.Done:
			if ev.Err != nil && !s.ending || ev.Token != s.reads || s.want == nil {
				s.t.Fatalf("%+v for read %d", ev, s.reads)
			}
			if ev.Err != nil {
				s.want = nil
				continue
			}
			s.checkRead()
		case fabric.PeerDown:
			s.down = ev.Err
		}
	}
}

// exchange lets both sides send n messages each, and waits until all have arrived.
func exchangeChecked(t *testing.T, sides [2]*side, n uint64) {
	t.Helper()
	state := func() string {
		return fmt.Sprintf("of %d messages %d and %d have arrived; Reads in progress: %v, %v%s%s", n, sides[0].got, sides[1].got,
			sides[0].want != nil, sides[1].want != nil, describe(sides[0].d), describe(sides[1].d))
	}
	ended := func() uint64 { return sides[0].got + sides[1].got + uint64(sides[0].readsEnd+sides[1].readsEnd) }
	for finished := false; !finished; {
		before := ended()
		pollUntilDone(t, "another message arrives, or a Read ends", state, func() bool {
			finished = true
			for i, s := range sides {
				if s.sent < n && s.r.IntN(2) == 0 {
					s.send()
				}
				s.poll()
				if s.down != nil {
					t.Fatalf("side %d: %v", i, s.down)
				}
				finished = finished && s.got == n && s.want == nil
			}
			return finished || ended() != before
		})
	}
}

// closeChecked lets side 0 close, and waits until side 1 has received everything and side 0 knows that.
func closeChecked(t *testing.T, sides [2]*side, relays [2]*relay) {
	t.Helper()
	sides[0].send()
	sides[1].send()
	want := sides[0].sent
	sides[0].ending, sides[1].ending = true, true
	if err := sides[0].ep.Close(); err != nil {
		t.Fatal(err)
	}
	isClosed := locked(sides[0].d, func() bool { return sides[0].d.peers[1].state == closed })
	state := func() string {
		return fmt.Sprintf("side 1 is down: %v%s%s", sides[1].down, describe(sides[0].d), describe(sides[1].d))
	}
	pollUntilDone(t, "the shutdown arrives", state, func() bool {
		sides[0].poll()
		sides[1].poll()
		if sides[1].down != nil {
			// A relay may have dropped the acknowledgement of the shutdown (faultHalf). Side 1 has closed its socket, so it does not
			// notice that. The kernel acknowledges to side 0 all that it sends to the relay. Only a reset makes side 0 connect again.
			relays[0].resetHalves()
			relays[1].resetHalves()
		}
		return sides[1].down != nil && isClosed()
	})
	if sides[1].got != want || !errors.Is(sides[1].down, fabric.ErrPeerClosed) {
		t.Errorf("%d of %d messages arrived, and then: %v", sides[1].got, want, sides[1].down)
	}
}

// describe returns the state of a domain's connections and handshakes, a line for each, for the message of a failure.
func describe(d *Domain) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	states := [...]string{unconnected: "unconnected", dialing: "dialing", up: "up", closing: "closing", closed: "closed"}
	phases := [...]string{connecting: "connecting", awaitHello: "hello", awaitChallenge: "challenge", awaitTLS: "TLS",
		awaitProof: "proof", awaitVerdict: "verdict"}
	now := time.Now()
	for _, e := range d.endpoints {
		fmt.Fprintf(&b, "\n%d with peer %d: %s, socket %d, sent %d of %d bytes, %d acknowledged, received %d", d.self, e.peer,
			states[e.state], e.stream.fd, e.out.kept.sent, e.out.kept.end, e.out.kept.acked, e.framing.received)
		if e.connecting() {
			fmt.Fprintf(&b, ", connecting: attempt %v, or in %v, lost in %v", e.conn.attempt != nil, e.conn.retryAt.Sub(now),
				e.conn.giveUpAt.Sub(now))
		}
		fmt.Fprintf(&b, "; broken: %v, last error: %v, down: %v", e.conn.broken, e.conn.lastErr, e.downErr)
	}
	for _, hs := range d.attempts.handshakes {
		if hs != nil {
			fmt.Fprintf(&b, "\n%d: handshake, client %v, waits for %s since %v, for another %v", d.self, hs.ep != nil,
				phases[hs.phase], now.Sub(hs.started), hs.deadline.Sub(now))
		}
	}
	return b.String()
}

// TestBrokenConnections: whatever happens to the connections of two peers, at whatever step, messages arrive once and in order,
// Reads get the right bytes, and the shutdown at the end is in order.
func TestBrokenConnections(t *testing.T) {
	seed := soaktest.Seed(t)
	for name, kinds := range map[string][]fault{
		"reset":     {faultReset},
		"close":     {faultClose},
		"flip":      {faultFlip},
		"half":      {faultHalf},
		"mixed":     {faultReset, faultClose, faultFlip, faultDelay, faultHalf},
		"without":   {faultReset, faultClose, faultDelay},
		"encrypted": {faultReset, faultClose, faultFlip, faultDelay, faultFlip},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(len(name))))
			tr := &Transport{Key: [32]byte{5}, Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit,
				NoChecksum: name == "without", Encrypt: name == "encrypted", Eager: 1}
			times := uint64(4)
			halves := slices.Contains(kinds, faultHalf)
			if halves {
				tr.Timeout = time.Hour // no peer is lost, however often an attempt to connect ends
			}
			if name == "half" {
				times = 2
			}
			random := randomFaults(r, kinds...)
			sides, relays := newSides(t, tr, r, [2]func() (fault, int){random, random})
			if halves { // the client of a handshake notices nothing of a half, and would wait for the timeout
				sides[0].via, sides[1].via = relays[1], relays[0]
			}
			for n := uint64(200); n < 10000 && sides[0].reconnects() < times; n += 200 {
				exchangeChecked(t, sides, n)
			}
			closeChecked(t, sides, relays)
			faults := [faultCount]int64{}
			for _, x := range relays {
				for f := range faults {
					faults[f] += x.count[f].Load()
				}
			}
			if sides[0].reconnects() < times {
				t.Error("the connection was hardly ever made again")
			}
			t.Logf("faults %v, made again %d and %d, Reads %d and %d, wrong checksums %d and %d", faults,
				sides[0].reconnects(), sides[1].reconnects(), sides[0].readsEnd, sides[1].readsEnd,
				sides[0].mismatches(), sides[1].mismatches())
		})
	}
}

// TestAcknowledgementLost: a peer that has received the shutdown closes its socket, and does not notice that its acknowledgement
// was lost. The side that closes keeps its connection. When that breaks it connects again, and learns that the session has ended.
func TestAcknowledgementLost(t *testing.T) {
	tr := &Transport{Key: [32]byte{5}, Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit,
		Timeout: time.Hour} // nothing but the reset ends the wait
	ds := openDomains(t, tr, 2)
	f := faultHalf // of the first connection, in the first frame that the server sends: an odd position concerns the server
	r := startRelay(t, ds[1], func() (fault, int) {
		now := f
		f = faultNone
		return now, (challengeBytes + positionBytes) | 1
	})
	e := connectTo(t, ds[0], 1, r.address()).(*endpoint)
	in := func(s state) func() bool { return locked(ds[0], func() bool { return e.state == s }) }
	var down error
	await := func(what string, done func() bool) {
		t.Helper()
		pollUntilDone(t, what, func() string { return describe(ds[0]) + describe(ds[1]) }, func() bool {
			pollOne(t, ds[0])
			if ev := pollOne(t, ds[1]); ev.Kind == fabric.PeerDown {
				down = ev.Err
			}
			return done()
		})
	}
	await("the connection", in(up))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	await("the shutdown", func() bool { return down != nil && r.count[faultHalf].Load() == 1 })
	if !in(closing)() || !errors.Is(down, fabric.ErrPeerClosed) {
		t.Errorf("without the acknowledgement: down %v%s%s", down, describe(ds[0]), describe(ds[1]))
	}
	r.resetHalves()
	await("the end of the session", in(closed))
}

// TestAlwaysCorrupt: if the same message is changed again and again, the peer is lost, and the error names it and the cause.
func TestAlwaysCorrupt(t *testing.T) {
	tr := &Transport{Key: [32]byte{5}, Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit}
	r := rand.New(rand.NewPCG(1, 1))
	sides, _ := newSides(t, tr, r, [2]func() (fault, int){
		func() (fault, int) { return faultFlip, 50001 }, // to the client, which is peer 1
		func() (fault, int) { return faultFlip, 50000 }, // to the server, which is peer 1
	})
	for err := fabric.ErrAgain; err != nil; {
		if err = sides[0].ep.Send(make([]byte, 100000), nil); err != nil && err != fabric.ErrAgain {
			t.Fatal(err)
		}
		sides[0].poll()
		sides[1].poll()
	}
	state := func() string { return fmt.Sprintf("%d wrong checksums", sides[1].mismatches()) }
	pollUntilDone(t, "both are lost", state, func() bool {
		sides[0].poll()
		sides[1].poll()
		return sides[0].down != nil && sides[1].down != nil
	})
	if err := sides[1].down; !errors.Is(err, fabric.ErrCorrupt) || !strings.Contains(err.Error(), "peer 0") ||
		sides[1].mismatches() != maxMismatches {
		t.Errorf("after %d wrong checksums: %v", sides[1].mismatches(), err)
	}
	if err := sides[0].down; !errors.Is(err, fabric.ErrPeerDown) || !strings.Contains(err.Error(), "ended the connection") {
		t.Errorf("the sender: %v", err)
	}
}

// TestRetained: while there is no connection, messages are kept up to a limit, and Send returns ErrAgain beyond it. All arrive
// when there is one again. Then the memory is freed.
func TestRetained(t *testing.T) {
	tr := &Transport{Key: [32]byte{5}, Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit,
		Timeout: time.Hour} // no peer is lost while there is no connection
	var cut atomic.Bool
	choose := func() (fault, int) {
		if cut.Load() {
			return faultReset, 0
		}
		return faultNone, 0
	}
	sides, relays := newSides(t, tr, rand.New(rand.NewPCG(1, 1)), [2]func() (fault, int){choose, choose})
	for _, s := range sides { // they free memory soon
		tickOften(t, s.d)
	}
	exchangeChecked(t, sides, 3)
	cut.Store(true)
	relays[0].resetAll(false)
	relays[1].resetAll(false)
	e := sides[0].ep.(*endpoint)
	header := make([]byte, 16)
	sent := sides[0].sent
	for err := error(nil); err == nil; {
		binary.LittleEndian.PutUint64(header, sent)
		payload := sides[0].memory[:1000]
		binary.LittleEndian.PutUint64(header[8:], hash(payload))
		if err = sides[0].ep.Send(header, payload); err == nil {
			sent++
		} else if err != fabric.ErrAgain {
			t.Fatal(err)
		}
	}
	e.d.mu.Lock()
	kept := e.out.kept.end - e.out.kept.acked
	e.d.mu.Unlock()
	if kept > maxRetained || sent < 100 {
		t.Fatalf("%d bytes of %d messages are kept", kept, sent)
	}
	cut.Store(false)
	isFree := locked(e.d, func() bool { return e.out.kept.ring == nil })
	state := func() string {
		return fmt.Sprintf("%d of %d messages have arrived, memory is free: %v", sides[1].got, sent, isFree())
	}
	pollUntilDone(t, "all messages arrive, and the memory is freed", state, func() bool {
		sides[0].poll()
		sides[1].poll()
		if sides[0].down != nil || sides[1].down != nil {
			t.Fatal(sides[0].down, sides[1].down)
		}
		return sides[1].got >= sent && isFree()
	})
}

// TestRing compares the ring buffer of retained with a slice that keeps everything.
func TestRing(t *testing.T) {
	seed := soaktest.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	var r retained
	var all []byte
	for range 20000 {
		switch random.IntN(6) {
		case 0, 1:
			b := make([]byte, random.IntN(3000))
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			if len(b) <= r.room() {
				r.add(b)
				all = append(all, b...)
			}
		case 2, 3:
			r.sent += uint64(random.IntN(r.unsent() + 1))
		case 4:
			if err := r.acknowledge(uint32(r.acked) + uint32(random.IntN(int(r.sent-r.acked)+1))); err != nil {
				t.Fatal(err)
			}
			if random.IntN(10) == 0 {
				r.release()
			}
		case 5:
			if random.IntN(50) == 0 {
				if err := r.resume(r.acked + uint64(random.IntN(int(r.sent-r.acked)+1))); err != nil {
					t.Fatal(err)
				}
			}
		}
		var kept []byte
		for at := r.acked; at < r.end; {
			part := r.part(at, r.end)
			kept = append(kept, part...)
			at += uint64(len(part))
		}
		if uint64(len(all)) != r.end || !bytes.Equal(kept, all[r.acked:]) || r.acked > r.sent || r.sent > r.end ||
			len(kept) > maxRetained {
			t.Fatalf("acked %d, sent %d, end %d of %d: kept %d bytes", r.acked, r.sent, r.end, len(all), len(kept))
		}
	}
	for _, ack := range []uint32{uint32(r.sent) + 1, uint32(r.acked) + 1<<30} {
		if err := r.acknowledge(ack); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("acknowledge %d of %d to %d: %v", ack, r.acked, r.sent, err)
		}
	}
	if r.resume(r.end+1) == nil || r.acked > 0 && r.resume(r.acked-1) == nil {
		t.Error("resumed outside of what is kept")
	}
}
