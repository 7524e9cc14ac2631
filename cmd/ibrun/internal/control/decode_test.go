package control

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/auth"
)

func testGreeting() []byte {
	g := greeting{node: 3, nodes: 5}
	g.nonce[0], g.nonce[31] = 1, 2
	return g.encode()
}

func testChallenge() []byte {
	return append(append([]byte(magic), version), make([]byte, nonceLen+proofLen)...)
}

func TestHandshakePrefixes(t *testing.T) {
	hello, answer := testGreeting(), testChallenge()
	if g, err := decodeGreeting(hello); err != nil || g.node != 3 || g.nodes != 5 || g.nonce[31] != 2 {
		t.Errorf("%+v, %v", g, err)
	}
	if _, _, err := decodeChallenge(answer); err != nil {
		t.Error(err)
	}
	for i := range hello {
		if _, err := decodeGreeting(hello[:i]); !errors.Is(err, ErrStranger) {
			t.Errorf("%d bytes of a greeting: %v", i, err)
		}
	}
	for i := range answer {
		if _, _, err := decodeChallenge(answer[:i]); !errors.Is(err, ErrStranger) {
			t.Errorf("%d bytes of a challenge: %v", i, err)
		}
	}
	hello[len(magic)]++
	if _, err := decodeGreeting(hello); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	for _, g := range []greeting{{node: 0, nodes: 2}, {node: 2, nodes: 2}, {node: 1, nodes: 0}} {
		if _, err := decodeGreeting(g.encode()); err == nil {
			t.Errorf("node %d/%d may come", g.node, g.nodes)
		}
	}
}

func FuzzHandshake(f *testing.F) {
	f.Add(testGreeting())
	f.Add(testChallenge())
	f.Fuzz(func(t *testing.T, b []byte) {
		if g, err := decodeGreeting(b); err == nil && !bytes.Equal(g.encode(), b) {
			t.Errorf("%x means %+v", b, g)
		}
		if nonce, proof, err := decodeChallenge(b); err == nil && len(nonce)+len(proof) != nonceLen+proofLen {
			t.Errorf("%x is a challenge of %x and %x", b, nonce, proof)
		}
	})
}

func testFrames() []byte {
	s := sealer{}
	var all []byte
	for _, f := range []frame{{kind: kindMessage, body: []byte("a message")}, {kind: kindBeat, body: make([]byte, beatLen)},
		{kind: kindHold}} {
		all = append(all, s.seal(f)...)
	}
	return all
}

// A stream that is cut off ends in an error, except between frames.
func TestFramePrefixes(t *testing.T) {
	all := testFrames()
	ends := map[int]bool{0: true, headLen + 9 + tagLen: true, 2*(headLen+tagLen) + 9 + beatLen: true}
	for i := range all {
		var o opener
		r := bytes.NewReader(all[:i])
		var err error
		for err == nil {
			_, err = o.read(r)
		}
		if ends[i] != (err == io.EOF) || !ends[i] && err != io.ErrUnexpectedEOF {
			t.Errorf("%d bytes: %v", i, err)
		}
	}
}

// No bit of a frame can be changed, and no frame left out, repeated, or come from elsewhere.
func TestForgedFrames(t *testing.T) {
	all := testFrames()
	first := all[:headLen+9+tagLen]
	refused := func(what string, b []byte, key byte) {
		o := opener{key: auth.Key{key}}
		r := bytes.NewReader(b)
		var err error
		for err == nil {
			_, err = o.read(r)
		}
		if !errors.Is(err, errForged) && err != io.ErrUnexpectedEOF {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range 8 * len(first) {
		b := bytes.Clone(first)
		b[i/8] ^= 1 << (i % 8)
		refused("a bit changed", b, 0)
	}
	refused("the first left out", all[len(first):], 0)
	refused("the first repeated", append(bytes.Clone(first), first...), 0)
	refused("another key", first, 1)
}

func FuzzFrames(f *testing.F) {
	f.Add(testFrames())
	f.Add([]byte{kindMessage, 0, 16, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		o, r := opener{}, bytes.NewReader(b)
		for {
			fr, err := o.read(r)
			if err != nil {
				return
			}
			if len(fr.body) > MaxMessage || fr.kind < kindMessage || fr.kind > kindHold {
				t.Errorf("a frame of kind %d with %d bytes", fr.kind, len(fr.body))
			}
		}
	})
}

func TestBeatPrefixes(t *testing.T) {
	beat := new(clock).beat(time.Unix(1e9, 0))
	if _, _, _, ok := decodeBeat(beat); !ok {
		t.Error("a beat makes no sense")
	}
	for i := range beat {
		if _, _, _, ok := decodeBeat(beat[:i]); ok {
			t.Errorf("%d bytes of a beat were taken", i)
		}
	}
}

func FuzzBeat(f *testing.F) {
	f.Add(new(clock).beat(time.Unix(1e9, 0)))
	f.Add(bytes.Repeat([]byte{0x7f}, beatLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		var k clock
		k.hear(b, time.Unix(1e9, 0))
		if again := k.beat(time.Unix(2e9, 0)); len(again) != beatLen {
			t.Errorf("a beat of %d bytes", len(again))
		}
	})
}
