package control

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/auth"
)

func testRequest() []byte {
	g := request{node: 3, nodes: 5, alivePort: 50000, session: sessionID{7, 15: 8}}
	g.nonce[0], g.nonce[31] = 1, 2
	return g.encode()
}

func testChallenge() []byte {
	return append(encodeChallenge(false, testHeartbeat), make([]byte, proofLen)...)
}

func TestHandshakePrefixes(t *testing.T) {
	req, answer := testRequest(), testChallenge()
	g, err := decodeRequest(req)
	if err != nil || g.node != 3 || g.nodes != 5 || g.alivePort != 50000 || g.session[15] != 8 || g.nonce[31] != 2 {
		t.Errorf("%+v, %v", g, err)
	}
	if _, _, _, err := decodeChallenge(answer); err != nil {
		t.Error(err)
	}
	for i := range req {
		if _, err := decodeRequest(req[:i]); !errors.Is(err, ErrNotIbrun) {
			t.Errorf("%d bytes of a request: %v", i, err)
		}
	}
	for i := range answer {
		if _, _, _, err := decodeChallenge(answer[:i]); !errors.Is(err, ErrNotIbrun) {
			t.Errorf("%d bytes of a challenge: %v", i, err)
		}
	}
	req[len(magicPlain)]++
	if _, err := decodeRequest(req); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	for _, g := range []request{{node: 0, nodes: 2}, {node: 2, nodes: 2}, {node: 1, nodes: 0}} {
		if _, err := decodeRequest(g.encode()); err == nil {
			t.Errorf("node %d/%d was accepted", g.node, g.nodes)
		}
	}
}

func FuzzHandshake(f *testing.F) {
	f.Add(testRequest())
	f.Add(testChallenge())
	f.Fuzz(func(t *testing.T, b []byte) {
		if g, err := decodeRequest(b); err == nil && !bytes.Equal(g.encode(), b) {
			t.Errorf("%x was decoded as %+v", b, g)
		}
		if _, heartbeat, proof, err := decodeChallenge(b); err == nil && (heartbeat <= 0 || len(proof) != proofLen) {
			t.Errorf("%x was decoded as a challenge of %v and %x", b, heartbeat, proof)
		}
	})
}

func testFrames() []byte {
	s := frameWriter{}
	var all []byte
	for _, f := range []frame{{kind: kindMessage, body: []byte("a message")},
		{kind: kindHeartbeat, body: make([]byte, heartbeatLen)}, {kind: kindSuspend}} {
		all = append(all, s.encode(f)...)
	}
	return all
}

// A stream that is cut off ends with io.ErrUnexpectedEOF, or with io.EOF between frames.
func TestFramePrefixes(t *testing.T) {
	all := testFrames()
	ends := map[int]bool{0: true, headerLen + 9 + tagLen: true, 2*(headerLen+tagLen) + 9 + heartbeatLen: true}
	for i := range all {
		var o frameReader
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

// A frame is refused if a bit was changed, if a frame before it was left out, if it is repeated, or if its key is another.
func TestChangedFrames(t *testing.T) {
	all := testFrames()
	first := all[:headerLen+9+tagLen]
	refused := func(what string, b []byte, key byte) {
		o := frameReader{key: auth.Key{key}}
		r := bytes.NewReader(b)
		var err error
		for err == nil {
			_, err = o.read(r)
		}
		if !errors.Is(err, errNotAuthentic) && err != io.ErrUnexpectedEOF {
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
		o, r := frameReader{}, bytes.NewReader(b)
		for {
			fr, err := o.read(r)
			if err != nil {
				return
			}
			if len(fr.body) > MaxMessage || fr.kind < kindMessage || fr.kind > kindClose {
				t.Errorf("a frame of kind %d with %d bytes", fr.kind, len(fr.body))
			}
		}
	})
}

func TestAckPrefixes(t *testing.T) {
	ack := encodeAck(1 << 40)
	if n, err := decodeAck(ack); n != 1<<40 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for i := range ack {
		if _, err := decodeAck(ack[:i]); !errors.Is(err, errProtocol) {
			t.Errorf("%d bytes of an acknowledgement: %v", i, err)
		}
	}
}

// An acknowledgement of any number removes exactly the messages that it names, or is an error.
func FuzzAck(f *testing.F) {
	f.Add(encodeAck(2), 3, false)
	f.Add(encodeAck(1<<63), 1, true)
	f.Fuzz(func(t *testing.T, b []byte, written int, restart bool) {
		var o unackedQueue
		for i := range 5 {
			o.add(make([]byte, i))
		}
		o.written = max(0, min(written, 5))
		count, err := decodeAck(b)
		if err != nil {
			return
		}
		most := uint64(o.written)
		if restart {
			most, err = 5, o.restart(count)
		} else {
			err = o.acknowledge(count)
		}
		if (err == nil) != (count <= most) {
			t.Fatalf("%d messages of %d: %v", count, most, err)
		}
		left, bytes := 0, 0
		for _, m := range o.messages {
			left, bytes = left+1, bytes+len(m)
		}
		if err == nil && (o.first != count || left != 5-int(count) || bytes != o.bytes) {
			t.Errorf("after %d: first %d, %d messages of %d bytes; counted %d", count, o.first, left, bytes, o.bytes)
		}
	})
}

func TestHeartbeatPrefixes(t *testing.T) {
	heartbeat := new(peerClock).heartbeat(time.Unix(1e9, 0))
	if _, _, _, ok := decodeHeartbeat(heartbeat); !ok {
		t.Error("a valid heartbeat was refused")
	}
	for i := range heartbeat {
		if _, _, _, ok := decodeHeartbeat(heartbeat[:i]); ok {
			t.Errorf("%d bytes of a heartbeat were accepted", i)
		}
	}
}

func FuzzHeartbeat(f *testing.F) {
	f.Add(new(peerClock).heartbeat(time.Unix(1e9, 0)))
	f.Add(bytes.Repeat([]byte{0x7f}, heartbeatLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		var k peerClock
		k.receive(b, time.Unix(1e9, 0))
		if again := k.heartbeat(time.Unix(2e9, 0)); len(again) != heartbeatLen {
			t.Errorf("a heartbeat of %d bytes", len(again))
		}
	})
}
