package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// TestFrames: a header is parsed as it was written, a part of one needs more bytes, and what no peer writes is corrupt.
func TestFrames(t *testing.T) {
	var b [headerBytes]byte
	for _, checked := range []bool{false, true} {
		for k := kindMessage; k < kindCount; k++ {
			for _, n := range []int{0, maxBody[k]} {
				if k == kindRead || k == kindPush {
					n = requestBytes
				}
				want := frame{k, n, 0xa5a6a7a8, 0x12345678}
				want.put(b[:], checked)
				if got, ok, err := parseFrame(b[:], checked); got != want || !ok || err != nil {
					t.Errorf("%+v: %+v, %v, %v", want, got, ok, err)
				}
				if gotKind, length := storedFrame(b[:]); gotKind != k || length != n {
					t.Errorf("%+v: %d, %d", want, gotKind, length)
				}
				for i := range b {
					if _, ok, err := parseFrame(b[:i], checked); ok || err != nil {
						t.Errorf("%d of %d bytes: %v, %v", i, len(b), ok, err)
					}
					b[i] ^= 0x10
					if _, ok, err := parseFrame(b[:], true); ok || err != errChecksum {
						t.Errorf("byte %d changed: %v, %v", i, ok, err)
					}
					b[i] ^= 0x10
				}
				frame{kind: k, length: maxBody[k] + 1}.put(b[:], checked)
				if _, ok, err := parseFrame(b[:], checked); ok || !errors.Is(err, fabric.ErrCorrupt) {
					t.Errorf("kind %d, too long: %v, %v", k, ok, err)
				}
			}
		}
		for _, k := range []kind{0, kindCount, 255} {
			frame{kind: k}.put(b[:], checked)
			if _, ok, err := parseFrame(b[:], checked); ok || !errors.Is(err, fabric.ErrCorrupt) {
				t.Errorf("kind %d: %v, %v", k, ok, err)
			}
		}
	}
	q := request{fabric.RemoteKey{Addr: 1, Key: 2}, 3, 4}
	whole := q.append(nil)
	if got, ok := parseRequest(whole); got != q || !ok {
		t.Errorf("%+v, %v", got, ok)
	}
	for i := range whole {
		if _, ok := parseRequest(whole[:i]); ok {
			t.Errorf("%d bytes are a request", i)
		}
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(joinFrames(kindMessage, "7"), true)
	f.Add(joinFrames(kindRead, string(request{bytes: 9}.append(nil))), true)
	f.Add([]byte{24, 0, 0, 2, 8, 15: 0, 16: 1, 39: 7}, false)
	f.Fuzz(func(t *testing.T, b []byte, checked bool) {
		got, ok, err := parseFrame(b, checked)
		if err != nil || !ok {
			return
		}
		var again [headerBytes]byte
		if got.put(again[:], checked); !bytes.Equal(again[:], b[:headerBytes]) {
			t.Fatalf("%x is %+v, which is written as %x", b[:headerBytes], got, again)
		}
		if q, ok := parseRequest(b[headerBytes:]); ok && !bytes.Equal(q.append(nil), b[headerBytes:][:requestBytes]) {
			t.Fatalf("%x is %+v", b, q)
		}
	})
}

// joinFrames encodes frames, given as pairs of kind and body, with checksums.
func joinFrames(fs ...any) (b []byte) {
	for i := 0; i < len(fs); i += 2 {
		var h [headerBytes]byte
		k, body := fs[i].(kind), []byte(fs[i+1].(string))
		frame{kind: k, length: len(body), sum: addSum(0, body)}.put(h[:], true)
		b = append(append(b, h[:]...), body...)
	}
	return b
}

// invalidAck encodes a frame that acknowledges what was never sent.
func invalidAck() []byte {
	var h [headerBytes]byte
	frame{kind: kindAck, ack: 1}.put(h[:], true)
	return h[:]
}

// invalidFrame encodes the header of a frame that is not valid, with a valid checksum.
func invalidFrame(k kind, length int) []byte {
	var h [headerBytes]byte
	frame{kind: k, length: length}.put(h[:], true)
	return h[:]
}

// testTranscript returns a transcript between peers 1 and 2 of 5, and the job's key.
func testTranscript() (t transcript, key [32]byte) {
	key = [32]byte{1, 2, 3}
	t.hello = hello{from: 1, to: 2, size: 5, options: 6, ends: ends{8, endsBytes - 1: 9}, session: session{7},
		nonce: [nonceBytes]byte{4}}
	return t, key
}

// TestHandshake: a hello is accepted only by the peer it is meant for, only whole, and only unchanged. The same holds for a
// challenge.
func TestHandshake(t *testing.T) {
	client, key := testTranscript()
	b := client.helloMessage(&key)
	server, err := parseHello(b, &key, 2, 5)
	if err != nil || server != client {
		t.Fatalf("%+v, %v", server, err)
	}
	other := key
	other[31]++
	refuse := func(why string, b []byte, key *[32]byte, self, size uint32) {
		if _, err := parseHello(b, key, self, size); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%s: %v", why, err)
		}
	}
	refuse("another job", b, &other, 2, 5)
	refuse("another peer", b, &key, 3, 5)
	refuse("another set", b, &key, 2, 6)
	for i := range b {
		refuse("a part", b[:i], &key, 2, 5)
		b[i] ^= 1
		refuse("a bit", b, &key, 2, 5)
		b[i] ^= 1
	}
	for _, h := range []hello{{from: 2, to: 2, size: 5, session: session{1}}, {from: 5, to: 2, size: 5, session: session{1}},
		{from: 1, to: 2, size: 5}} {
		refuse("invalid peers or session", (&transcript{hello: h}).helloMessage(&key), &key, 2, 5)
	}
	server.nonce[7], server.options = 9, 3|optionStalled|optionLocal
	challenge := server.challenge(&key)
	for i := range challenge {
		x := client
		if err := x.parseChallenge(challenge[:i], &key); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%d bytes of a challenge: %v", i, err)
		}
		challenge[i] ^= 1
		if err := x.parseChallenge(challenge, &key); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("a challenge with byte %d changed: %v", i, err)
		}
		challenge[i] ^= 1
	}
	if err := client.parseChallenge(challenge, &key); err != nil || client != server {
		t.Errorf("%v, %+v", err, client)
	}
	proof := client.positionMessage(&key, labelProof, 1<<40+1)
	for i := range proof {
		if _, ok := server.parsePosition(proof[:i], &key, labelProof); ok {
			t.Errorf("%d bytes are a proof", i)
		}
		proof[i] ^= 1
		if _, ok := server.parsePosition(proof, &key, labelProof); ok {
			t.Errorf("a proof with byte %d changed is valid", i)
		}
		proof[i] ^= 1
	}
	if at, ok := server.parsePosition(proof, &key, labelProof); at != 1<<40+1 || !ok {
		t.Errorf("%d, %v", at, ok)
	}
	if _, ok := server.parsePosition(proof, &key, labelAccept); ok {
		t.Error("a proof is a verdict")
	}
	var macs [][]byte // all are different
	for _, label := range []string{labelHello, labelChallenge, labelProof, labelAccept, labelDuplicate, labelEnded} {
		m := client.mac(&key, label)
		if slices.ContainsFunc(macs, func(x []byte) bool { return bytes.Equal(x, m) }) {
			t.Errorf("%s has the MAC of another label", label)
		}
		macs = append(macs, m)
	}
}

func FuzzHandshake(f *testing.F) {
	x, key := testTranscript()
	f.Add(x.helloMessage(&key))
	f.Add(x.challenge(&key))
	f.Add(x.positionMessage(&key, labelProof, 5))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := parseHello(b, &key, 2, 5); err == nil && !bytes.Equal(got.helloMessage(&key), b) {
			t.Fatalf("%x is %+v", b, got)
		}
		y := x
		if err := y.parseChallenge(b, &key); err == nil && !bytes.Equal(y.challenge(&key), b) {
			t.Fatalf("%x is a challenge", b)
		}
		if at, ok := x.parsePosition(b, &key, labelProof); ok && !bytes.Equal(x.positionMessage(&key, labelProof, at), b) {
			t.Fatalf("%x is a proof", b)
		}
	})
}

// TestAddress: an address is parsed as it was written, and no part of it is valid.
func TestAddress(t *testing.T) {
	addrs := []netip.AddrPort{netip.MustParseAddrPort("10.1.2.3:4"), netip.MustParseAddrPort("[fd00::1]:65535")}
	b := appendAddress(nil, addrs)
	if got, err := parseAddress(b); err != nil || !slices.Equal(got, addrs) {
		t.Errorf("%v, %v", got, err)
	}
	for i := range b {
		if got, err := parseAddress(b[:i]); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v, %v", i, len(b), got, err)
		}
	}
	for _, bad := range []string{"0.0.0.0:1", "10.1.2.3:0", "[ff02::1]:1", "224.0.0.1:1"} {
		b := appendAddress(nil, []netip.AddrPort{netip.MustParseAddrPort(bad)})
		if got, err := parseAddress(b); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%s: %v, %v", bad, got, err)
		}
	}
	if _, err := parseAddress(append(b, 0)); !errors.Is(err, fabric.ErrCorrupt) {
		t.Error(err)
	}
	if n := len(appendAddress(nil, slices.Repeat(addrs[1:], maxAddrs))); n > 256 {
		t.Errorf("an address may take %d bytes", n)
	}
}

func FuzzAddress(f *testing.F) {
	f.Add(appendAddress(nil, []netip.AddrPort{netip.MustParseAddrPort("10.1.2.3:4"), netip.MustParseAddrPort("[fd00::1]:5")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := parseAddress(b); err == nil && !bytes.Equal(appendAddress(nil, got), b) {
			t.Fatalf("%x is %v", b, got)
		}
	})
}

func prefixes(list ...string) (ps []netip.Prefix) {
	for _, p := range list {
		ps = append(ps, netip.MustParsePrefix(p))
	}
	return ps
}

// testInterfaces returns the interfaces of a node that has some of every sort.
func testInterfaces() []iface {
	return []iface{
		{name: "lo", index: 1, loopback: true, prefixes: prefixes("127.0.0.1/8", "::1/128")},
		{name: "eth0", index: 2, prefixes: prefixes("10.0.0.5/24", "fd00::5/64", "fe80::5/64")},
		{name: "eth1", index: 3, prefixes: prefixes("10.1.0.5/24")},
		{name: "docker0", index: 4, prefixes: prefixes("172.17.0.1/16")},
	}
}

// TestInterfaces: the rules choose the right addresses.
func TestInterfaces(t *testing.T) {
	for _, c := range []struct {
		rules string
		all   []iface
		want  []string
	}{
		{"", testInterfaces(), []string{"10.0.0.5", "fd00::5", "10.1.0.5"}},
		{"", testInterfaces()[:1], []string{"127.0.0.1", "::1"}},
		{"", testInterfaces()[3:], nil},
		{"eth1", testInterfaces(), []string{"10.1.0.5"}},
		{"eth*, ^10.0.0.0/24", testInterfaces(), []string{"fd00::5", "fe80::5", "10.1.0.5"}},
		{"^eth0", testInterfaces(), []string{"10.1.0.5"}},
		{"^eth*", testInterfaces(), []string{"127.0.0.1", "::1"}},
		{"lo", testInterfaces(), []string{"127.0.0.1", "::1"}},
		{"docker0,10.1.0.0/16", testInterfaces(), []string{"10.1.0.5", "172.17.0.1"}},
		{"fe80::/10", testInterfaces(), []string{"fe80::5"}},
		{"ib0", testInterfaces(), nil},
	} {
		rules, err := ParseInterfaces(c.rules)
		if err != nil {
			t.Errorf("%q: %v", c.rules, err)
		}
		var got []string
		for _, i := range choose(c.all, rules) {
			for _, p := range i.prefixes {
				got = append(got, p.Addr().String())
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q chooses %v instead of %v", c.rules, got, c.want)
		}
	}
	for _, bad := range []string{"10.0.0.0/33", "^", "eth[", "a,^b/c"} {
		if got, err := ParseInterfaces(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// TestUnusedRules: a rule that names what the host does not have is reported with the reason. Patterns and exclusions are not,
// nor is a rule whose addresses another one excludes.
func TestUnusedRules(t *testing.T) {
	up := append(testInterfaces(), iface{name: "wg0", index: 6})
	down := []string{"eth9"}
	for list, want := range map[string][]string{
		"":                                      nil,
		"lo,eth0,10.1.0.0/16,172.17.0.1/32":     nil,
		"eth0,^10.0.0.0/8,^fd00::/8,^fe80::/10": nil,
		"lo,ib*,^ib0,^10.9.0.0/16,^docker1":     nil,
		"lo,nosuch0": {"nosuch0 is not used for TCP (IBRUN_TCP_INTERFACES): this host has no network interface of this name, only " +
			"docker0, eth0, eth1, eth9, lo, wg0"},
		"10.9.0.0/16,eth9,lo,wg0": {"10.9.0.0/16 is not used for TCP (IBRUN_TCP_INTERFACES): no interface of this host that is up " +
			"has an address in this network",
			"eth9 is not used for TCP (IBRUN_TCP_INTERFACES): the interface is down",
			"wg0 is not used for TCP (IBRUN_TCP_INTERFACES): the interface has no IP address"},
	} {
		rules, err := ParseInterfaces(list)
		if err != nil {
			t.Fatal(err)
		}
		if got := unusedRules(rules, up, down); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", list, got, want)
		}
	}
	for i := range 30 {
		down = append(down, fmt.Sprint("veth", i))
	}
	got := unusedRules([]string{"nosuch0"}, up, down)
	if len(got) != 1 || !strings.HasSuffix(got[0], ", veth1, veth10 and 28 others") {
		t.Errorf("many interfaces: %q", got)
	}
}

func FuzzInterfaces(f *testing.F) {
	f.Add("eth*,10.1.0.0/16,^docker0")
	f.Fuzz(func(t *testing.T, list string) {
		if rules, err := ParseInterfaces(list); err == nil {
			choose(testInterfaces(), rules)
			unusedRules(rules, testInterfaces(), []string{"eth9"})
		}
	})
}

// TestDialOrder: addresses in a subnet of this machine come first, and IPv4 before IPv6.
func TestDialOrder(t *testing.T) {
	mine := testInterfaces()[1:3]
	for _, c := range []struct{ theirs, want []string }{
		{[]string{"[fd00::9]:1", "192.168.0.9:1", "10.1.0.9:1"}, []string{"10.1.0.9:1", "[fd00::9]:1", "192.168.0.9:1"}},
		{[]string{"[fd01::9]:1", "192.168.0.9:1"}, []string{"192.168.0.9:1", "[fd01::9]:1"}},
		{[]string{"[fe80::9]:1"}, []string{"[fe80::9%2]:1"}},
	} {
		var addrs []netip.AddrPort
		for _, s := range c.theirs {
			addrs = append(addrs, netip.MustParseAddrPort(s))
		}
		at, err := dialOrder(mine, addrs)
		var got []string
		for _, p := range at {
			got = append(got, p.String())
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: dialed in the order %v instead of %v, %v", c.theirs, got, c.want, err)
		}
	}
	if _, err := dialOrder(mine[1:], []netip.AddrPort{netip.MustParseAddrPort("[fe80::9]:1")}); err == nil {
		t.Error("a link-local address is dialed through an interface without one")
	}
}
