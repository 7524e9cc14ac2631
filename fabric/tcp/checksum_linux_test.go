package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
)

// TestChecksums: connections have checksums unless both ends are in this machine with nothing between them, or unless they are
// off, or do the same by encryption.
func TestChecksums(t *testing.T) {
	direct, check := Transport{}, Transport{checkLocal: true}
	off, encrypted := Transport{NoChecksum: true}, Transport{Encrypt: true}
	for name, c := range map[string]struct {
		client, server Transport
		ip             string
		forwarded      bool
		want           bool
	}{
		"direct":               {direct, direct, "127.0.0.1", false, false},
		"direct, IPv6":         {direct, direct, "::1", false, false},
		"forwarded":            {direct, direct, "127.0.0.1", true, true},
		"demanded":             {check, check, "127.0.0.1", false, true},
		"demanded by client":   {check, direct, "127.0.0.1", false, true},
		"demanded by server":   {direct, check, "127.0.0.1", false, true},
		"off":                  {off, off, "127.0.0.1", true, false},
		"encrypted":            {encrypted, encrypted, "127.0.0.1", false, false},
		"encrypted, forwarded": {encrypted, encrypted, "127.0.0.1", true, false},
	} {
		ip := netip.MustParseAddr(c.ip)
		if l, err := net.Listen("tcp", netip.AddrPortFrom(ip, 0).String()); err != nil {
			t.Logf("%s is not tested: %v", name, err)
			continue
		} else if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		var ds [2]*Domain
		for i, tr := range []Transport{c.client, c.server} {
			tr.Interfaces, tr.Linger = []string{netip.PrefixFrom(ip, ip.BitLen()).String()}, waittest.Limit
			ds[i] = openDomains(t, &tr, 2)[i]
		}
		var at [2][]byte
		for i, d := range ds {
			if at[i] = d.Addr(); c.forwarded {
				at[i] = startRelay(t, d, noFault).address()
			}
		}
		es := [2]fabric.Endpoint{connectTo(t, ds[0], 1, at[1])}
		pollUntilDone(t, "the connection", func() string { return describe(ds[0]) + describe(ds[1]) }, func() bool {
			pollOne(t, ds[0])
			pollOne(t, ds[1])
			return locked(ds[0], func() bool { return ds[0].peers[1].state == up })()
		})
		es[1] = connectTo(t, ds[1], 0, at[0])
		exchange(t, ds, es, rand.New(rand.NewPCG(1, 2)), name)
		for i, ep := range es {
			e := ep.(*endpoint)
			if got := locked(e.d, func() bool { return e.framing.checked })(); got != c.want {
				t.Errorf("%s, peer %d: checksums %v", name, i, got)
			}
		}
	}
}

// noFault chooses no fault.
func noFault() (fault, int) { return faultNone, 0 }

// TestChecksumsChange: a session goes on if a broken connection without checksums is replaced by one that has them, or the other
// way round. What was kept arrives.
func TestChecksumsChange(t *testing.T) {
	tr := &Transport{Key: [32]byte{5}, Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit}
	sides, relays := newSides(t, tr, rand.New(rand.NewPCG(3, 3)), [2]func() (fault, int){noFault, noFault})
	for round := range uint64(6) {
		exchangeChecked(t, sides, 50*(round+1))
		checked := round%2 == 0
		for i, s := range sides {
			e := s.ep.(*endpoint)
			next := relays[1-i].address()
			if checked {
				next = sides[1-i].d.Addr()
			}
			addrs, err := parseAddress(next)
			if err != nil {
				t.Fatal(err)
			}
			s.d.mu.Lock()
			if e.framing.checked != checked {
				t.Errorf("round %d, side %d: checksums %v", round, i, e.framing.checked)
			}
			e.conn.addrs = addrs
			s.d.mu.Unlock()
		}
		locked(sides[0].d, func() bool {
			sides[0].ep.(*endpoint).reconnect(errors.New("ended by the test"))
			return true
		})()
		for range 10 {
			sides[0].send()
			sides[1].send()
		}
	}
	for i, s := range sides {
		if s.mismatches() != 0 {
			t.Errorf("side %d: %d wrong checksums", i, s.mismatches())
		}
	}
	closeChecked(t, sides, relays)
}

// TestRewriteHeaders: the kept frames get headers with checksums or without them, wherever they are in the ring buffer, and
// nothing else changes. A position within a frame is an error.
func TestRewriteHeaders(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	frames := func(checked bool, bodies [][]byte) (all []byte) {
		for i, body := range bodies {
			f := frame{kind: kindMessage, length: len(body), ack: uint32(i)}
			if checked {
				f.sum = addSum(0, body)
			}
			var h [headerBytes]byte
			f.put(h[:], checked)
			all = append(append(all, h[:]...), body...)
		}
		return all
	}
	for range 1000 {
		var bodies [][]byte
		for range 1 + r.IntN(5) {
			body := make([]byte, r.IntN(1000))
			for i := range body {
				body[i] = byte(r.Uint32())
			}
			bodies = append(bodies, body)
		}
		var kept retained
		start := uint64(r.IntN(2 * minRing))
		kept.acked, kept.sent, kept.end = start, start, start
		checked := r.IntN(2) == 0
		kept.add(frames(checked, bodies))
		if err := kept.rewriteHeaders(!checked); err != nil {
			t.Fatal(err)
		}
		first, second := kept.parts(kept.acked, kept.end)
		if got, want := slices.Concat(first, second), frames(!checked, bodies); !bytes.Equal(got, want) {
			t.Fatalf("%d frames from position %d on: %x, want %x", len(bodies), start, got, want)
		}
	}
	for _, body := range []byte{0, 0xff} {
		var kept retained
		kept.add(frames(true, [][]byte{bytes.Repeat([]byte{body}, 7*headerBytes)}))
		for _, acked := range []uint64{headerBytes, headerBytes + 1, 7 * headerBytes} {
			kept.acked = acked
			if err := kept.rewriteHeaders(false); !errors.Is(err, fabric.ErrCorrupt) {
				t.Errorf("with %d bytes received: %v", acked, err)
			}
		}
	}
}

// TestEnds: the ends of a connection are those of one within the machine only if both have the same address, and every part of
// them counts.
func TestEnds(t *testing.T) {
	at := netip.MustParseAddrPort
	if x := newEnds(at("10.0.0.1:5"), at("10.0.0.2:6")); x != (ends{}) {
		t.Errorf("two addresses: %x", x)
	}
	if x := newEnds(netip.AddrPort{}, netip.AddrPort{}); x != (ends{}) {
		t.Errorf("no addresses: %x", x)
	}
	seen := map[ends]string{{}: "another connection"}
	for _, c := range [][2]string{{"10.0.0.1:5", "10.0.0.1:6"}, {"10.0.0.1:6", "10.0.0.1:5"}, {"10.0.0.1:5", "10.0.0.1:7"},
		{"10.0.0.1:5", "10.0.0.1:1285"}, {"10.0.0.2:5", "10.0.0.2:6"}, {"[::1]:5", "[::1]:6"}, {"[fd00::1]:5", "[fd00::1]:6"}} {
		x := newEnds(at(c[0]), at(c[1]))
		name := fmt.Sprint(c)
		if other, double := seen[x]; double {
			t.Errorf("%s: %x, as %s", name, x, other)
		}
		seen[x] = name
	}
}
