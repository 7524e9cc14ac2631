package cm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

func sampleCMMessage(key *[32]byte) (Message, []byte) {
	a := sampleAddress()
	g := Message{
		Kind: REP, From: 1, To: 2, Size: 3, Epoch: 4, FromIncarnation: 5, ToIncarnation: 6, NextSeq: 7, Grant: 8, Lanes: 2,
		Pairs: [MaxLanes]QP{{9, 10, Lane{}}, {11, 12, Lane{1, 7}}}, ReqQP: QP{13, 14, Lane{}}, Keys: KeyTable{15, 16},
		Returned: 2, MTU: verbs.MTU2048, Address: a.Append(nil),
	}
	return g, g.Append(nil, key)
}

// sampleReason returns a datagram with a reason in place of an address.
func sampleReason(kind Kind, text string, key *[32]byte) (Message, []byte) {
	g := Message{
		Kind: kind, From: 1, To: 2, Size: 3, Epoch: 4, FromIncarnation: 5, ToIncarnation: 6, NextSeq: 7,
		Grant: uint32(syscall.ENOMEM), Keys: KeyTable{15, 16}, Address: []byte(text),
	}
	return g, g.Append(nil, key)
}

// TestReasons: the reason in a datagram has a limited length, and fits in the shortest packet. It
// is printed without control characters, since another process has written it. Lanes in such a
// datagram are an error.
func TestReasons(t *testing.T) {
	var key [32]byte
	for _, kind := range []Kind{REJ, GiveUp} {
		for n, want := range map[int]error{0: nil, maxReason: nil, maxReason + 1: errMalformed, 255: errMalformed} {
			g, b := sampleReason(kind, strings.Repeat("x", n), &key)
			if got, err := ParseMessage(b, &key); err != want || err == nil && !reflect.DeepEqual(got, g) {
				t.Errorf("kind %d, %d bytes: %+v, %v", kind, n, got, err)
			}
			if want == nil && len(b) > 256 {
				t.Errorf("a datagram of %d bytes", len(b))
			}
		}
		g, _ := sampleReason(kind, "", &key)
		g.Lanes = 1
		if _, err := ParseMessage(g.Append(nil, &key), &key); err != errMalformed {
			t.Errorf("kind %d with a lane: %v", kind, err)
		}
	}
	g, _ := sampleReason(GiveUp, "a\x1b[2J\n\xff", &key)
	if err := g.Reason(); err.Error() != `a\x1b[2J\n\xff` || !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("%v", err)
	}
	g.Grant = 0
	if err := g.Reason(); errors.Unwrap(err) != nil {
		t.Errorf("without an error number: %v", errors.Unwrap(err))
	}
	long := errors.New(strings.Repeat("x", 1000) + " the end")
	if r := string(Reason("3 attempts: ", long)); len(r) != maxReason || !strings.HasPrefix(r, "3 attempts: ... xx") ||
		!strings.HasSuffix(r, " the end") {
		t.Errorf("%q", r)
	}
}

func TestCMMessagePrefixes(t *testing.T) {
	key := [32]byte{1}
	g, b := sampleCMMessage(&key)
	for n := range b {
		if _, err := ParseMessage(b[:n], &key); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if got, err := ParseMessage(b, &key); err != nil || !reflect.DeepEqual(got, g) {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range b { // the MAC covers every byte
		b[i] ^= 1
		if _, err := ParseMessage(b, &key); !errors.Is(err, fabric.ErrCorrupt) {
			t.Errorf("byte %d: %v", i, err)
		}
		b[i] ^= 1
	}
	if _, err := ParseMessage(b, &[32]byte{2}); !errors.Is(err, fabric.ErrCorrupt) {
		t.Errorf("with the key of another job: %v", err)
	}
}

func FuzzCMMessage(f *testing.F) {
	var key [32]byte
	_, b := sampleCMMessage(&key)
	f.Add(b[:len(b)-macBytes])
	for _, kind := range []Kind{REJ, GiveUp} {
		_, b := sampleReason(kind, "device a refuses\x1b the call", &key)
		f.Add(b[:len(b)-macBytes])
		_, b = sampleReason(kind, strings.Repeat("x", maxReason+1), &key)
		f.Add(b[:len(b)-macBytes])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append(bytes.Clone(body), messageMAC(body, &key)...)
		if g, err := ParseMessage(b, &key); err == nil && !bytes.Equal(g.Append(nil, &key), b) {
			t.Errorf("%x became %x", b, g.Append(nil, &key))
		}
	})
}

// TestMACFormat compares the MAC of a datagram with that of the version of the protocol that is in
// use: peers of other builds must compute the same.
func TestMACFormat(t *testing.T) {
	key := [32]byte{1, 31: 2}
	_, b := sampleCMMessage(&key)
	const want = "c9baba549e1ec60eba4ba253c67f1e35562849f239e6917c31a0f3f22eb1cbb4"
	if got := hex.EncodeToString(b[len(b)-macBytes:]); got != want {
		t.Errorf("MAC %s, want %s", got, want)
	}
}
