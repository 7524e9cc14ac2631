package rdma

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

func sampleHeader() []byte {
	b := make([]byte, headerBytes)
	(&header{seq: 1<<32 - 1, grant: 2, grantSeen: 3, kind: kindCredit, needsCredits: true}).put(b)
	return b
}

func TestHeaderPrefixes(t *testing.T) {
	b := sampleHeader()
	for n := range b {
		if _, err := parseHeader(b[:n]); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if h, err := parseHeader(b); err != nil || h != (header{1<<32 - 1, 2, 3, kindCredit, true}) {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := parseHeader(append(b, 0)); !errors.Is(err, fabric.ErrCorrupt) {
		t.Errorf("a credit update with bytes behind the header: %v", err)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(sampleHeader())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		again := make([]byte, headerBytes)
		if h.put(again); !bytes.Equal(again, b[:headerBytes]) {
			t.Errorf("%x became %x", b[:headerBytes], again)
		}
	})
}

func sampleAddress() address {
	rail := verbs.Address{
		Type: verbs.UD, MTU: verbs.MTU1024, RDAtomic: 16, QPN: 17, PSN: 3, QKey: 5,
		GID: netip.MustParseAddr("::ffff:10.0.2.15"),
	}
	first := railAddress{Address: rail, n: 2, partitions: [maxPartitions]peerPartition{{0x8001, 17, 18}, {0x7fff, 19, 20}}}
	second := railAddress{Address: rail, n: 1, partitions: [maxPartitions]peerPartition{{key: 0xffff}}}
	return address{incarnation: 77, revision: 78, link: linkInfo{400_000, true, false, 120}, rails: []railAddress{first, second}}
}

func TestAddressPrefixes(t *testing.T) {
	a := sampleAddress()
	b := a.append(nil)
	for n := range b {
		if _, err := parseAddress(b[:n]); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if got, err := parseAddress(b); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v, %v", got, err)
	}
	if maxAddressBytes > 255 { // its length is one byte of a datagram
		t.Errorf("an address may have %d bytes", maxAddressBytes)
	}
}

func FuzzAddress(f *testing.F) {
	a := sampleAddress()
	f.Add(a.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := parseAddress(b); err == nil && !bytes.Equal(a.append(nil), b) {
			t.Errorf("%x became %x", b, a.append(nil))
		}
	})
}

func sampleCMMessage(key *[32]byte) (cmMessage, []byte) {
	a := sampleAddress()
	g := cmMessage{
		kind: cmREP, from: 1, to: 2, size: 3, epoch: 4, fromIncarnation: 5, toIncarnation: 6, nextSeq: 7, grant: 8, lanes: 2,
		qps: [maxLanes]qpInfo{{9, 10, lane{}}, {11, 12, lane{1, 7}}}, reqQP: qpInfo{13, 14, lane{}}, keys: keyTable{15, 16},
		returned: 2, mtu: verbs.MTU2048, address: a.append(nil),
	}
	return g, g.append(nil, key)
}

// sampleReason returns a datagram with a reason in place of an address.
func sampleReason(kind cmKind, text string, key *[32]byte) (cmMessage, []byte) {
	g := cmMessage{
		kind: kind, from: 1, to: 2, size: 3, epoch: 4, fromIncarnation: 5, toIncarnation: 6, nextSeq: 7,
		grant: uint32(syscall.ENOMEM), keys: keyTable{15, 16}, address: []byte(text),
	}
	return g, g.append(nil, key)
}

// TestReasons: the reason in a datagram has a limited length, and fits in the shortest packet. It is printed without control
// characters, since another process has written it. Lanes in such a datagram are an error.
func TestReasons(t *testing.T) {
	var key [32]byte
	for _, kind := range []cmKind{cmREJ, cmGiveUp} {
		for n, want := range map[int]error{0: nil, maxReason: nil, maxReason + 1: errMalformed, 255: errMalformed} {
			g, b := sampleReason(kind, strings.Repeat("x", n), &key)
			if got, err := parseCMMessage(b, &key); err != want || err == nil && !reflect.DeepEqual(got, g) {
				t.Errorf("kind %d, %d bytes: %+v, %v", kind, n, got, err)
			}
			if want == nil && len(b) > 256 {
				t.Errorf("a datagram of %d bytes", len(b))
			}
		}
		g, _ := sampleReason(kind, "", &key)
		g.lanes = 1
		if _, err := parseCMMessage(g.append(nil, &key), &key); err != errMalformed {
			t.Errorf("kind %d with a lane: %v", kind, err)
		}
	}
	g, _ := sampleReason(cmGiveUp, "a\x1b[2J\n\xff", &key)
	if err := g.reason(); err.Error() != `a\x1b[2J\n\xff` || !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("%v", err)
	}
	g.grant = 0
	if err := g.reason(); errors.Unwrap(err) != nil {
		t.Errorf("without an error number: %v", errors.Unwrap(err))
	}
	long := errors.New(strings.Repeat("x", 1000) + " the end")
	if r := string(reason("3 attempts: ", long)); len(r) != maxReason || !strings.HasPrefix(r, "3 attempts: ... xx") ||
		!strings.HasSuffix(r, " the end") {
		t.Errorf("%q", r)
	}
}

func TestCMMessagePrefixes(t *testing.T) {
	key := [32]byte{1}
	g, b := sampleCMMessage(&key)
	for n := range b {
		if _, err := parseCMMessage(b[:n], &key); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if got, err := parseCMMessage(b, &key); err != nil || !reflect.DeepEqual(got, g) {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range b { // the MAC covers every byte
		b[i] ^= 1
		if _, err := parseCMMessage(b, &key); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("byte %d: %v", i, err)
		}
		b[i] ^= 1
	}
	if _, err := parseCMMessage(b, &[32]byte{2}); !errors.Is(err, fabric.ErrCorrupt) {
		t.Errorf("with the key of another job: %v", err)
	}
}

func FuzzCMMessage(f *testing.F) {
	var key [32]byte
	_, b := sampleCMMessage(&key)
	f.Add(b[:len(b)-macBytes])
	for _, kind := range []cmKind{cmREJ, cmGiveUp} {
		_, b := sampleReason(kind, "device a refuses\x1b the call", &key)
		f.Add(b[:len(b)-macBytes])
		_, b = sampleReason(kind, strings.Repeat("x", maxReason+1), &key)
		f.Add(b[:len(b)-macBytes])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append(bytes.Clone(body), cmMAC(body, &key)...)
		if g, err := parseCMMessage(b, &key); err == nil && !bytes.Equal(g.append(nil, &key), b) {
			t.Errorf("%x became %x", b, g.append(nil, &key))
		}
	})
}
