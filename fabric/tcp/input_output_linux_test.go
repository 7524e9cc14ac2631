package tcp

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// TestOutput sends random frames and takes away random numbers of bytes: everything comes out once, the
// messages in their order, and a control frame behind the messages that were there before it.
func TestOutput(t *testing.T) {
	r := rand.New(rand.NewPCG(soaktest.Seed(t), 1))
	for range 200 {
		var o output
		var want, got []byte
		body := bytes.Repeat([]byte{'b'}, r.IntN(50))
		o.setHead([]byte("head"))
		o.body = body
		want = append(append(want, "head"...), body...)
		for i := range 20 {
			b := bytes.Repeat([]byte{byte(i)}, 1+r.IntN(300))
			if len(o.control) > 0 || r.IntN(4) == 0 { // a message would come after the control frames that wait
				o.addControl(b)
			} else {
				o.kept.add(b)
			}
			want = append(want, b...)
			for range r.IntN(3) {
				got = append(got, takeOutput(&o, r.IntN(200))...)
			}
		}
		for !o.empty() {
			got = append(got, takeOutput(&o, 1+r.IntN(500))...)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	}
}

// takeOutput sends up to n bytes.
func takeOutput(o *output, n int) []byte {
	parts := o.next()
	b := slices.Concat(parts[:]...)
	b = b[:min(n, len(b))]
	o.advance(len(b))
	return b
}

// TestOutputControl: a message that is sent while a control frame waits comes after it.
func TestOutputControl(t *testing.T) {
	var o output
	o.kept.add([]byte("before "))
	o.addControl([]byte("control "))
	o.kept.add([]byte("after"))
	if first := takeOutput(&o, 100); string(first) != "before control " {
		t.Errorf("first %q", first)
	}
	if rest := takeOutput(&o, 100); string(rest) != "after" || !o.empty() {
		t.Errorf("then %q, empty %v", rest, o.empty())
	}
	o.setHead([]byte("head"))
	o.addControl([]byte("control"))
	if o.dropUnkept(); !o.empty() {
		t.Errorf("left: %q", o.next())
	}
}

// TestInput: while events refer to the buffer, another one takes its place when it is full, and the
// first is kept until the next Poll.
func TestInput(t *testing.T) {
	var p buffers
	var in input
	if n := len(in.room(&p)); n != bufferBytes {
		t.Fatalf("an empty buffer has room for %d bytes", n)
	}
	first := in.buf
	in.filled, in.parsed, in.delivered = bufferBytes-10, bufferBytes-20, bufferBytes-20
	copy(in.buf[in.delivered:], "0123456789")
	in.borrowed = true
	if room := in.room(&p); len(room) != bufferBytes-10 || string(in.buf[:10]) != "0123456789" || &in.lent[0] != &first[0] {
		t.Fatalf("borrowed and full: room for %d bytes, %q", len(room), in.buf[:10])
	}
	if in.delivered != 0 || in.parsed != 0 || in.filled != 10 {
		t.Fatalf("delivered %d, parsed %d, filled %d", in.delivered, in.parsed, in.filled)
	}
	in.endBorrowing(&p)
	if in.buf == nil || in.lent != nil || len(p.free) != 1 {
		t.Fatalf("buffer %v, lent %v, %d free", in.buf != nil, in.lent != nil, len(p.free))
	}
	in.dropPartial()
	if in.releaseEmpty(&p); in.buf != nil || len(p.free) != 2 {
		t.Fatalf("an empty buffer is kept: %d free", len(p.free))
	}
}

// TestInputSkip: a frame behind messages that have not been delivered is marked, and deliver skips it.
func TestInputSkip(t *testing.T) {
	var p buffers
	var in input
	room := in.room(&p)
	frame{kind: kindMessage, length: 1}.put(room, false)
	frame{kind: kindAck, length: 3}.put(room[headerBytes+1:], false)
	in.filled = headerBytes + 1 + headerBytes
	in.parsed = headerBytes + 1
	if n := in.missing(); n != 3 {
		t.Errorf("%d bytes are missing", n)
	}
	in.filled += 3
	in.skip(3)
	if k, n := storedFrame(in.buf[headerBytes+1:]); k != kindSkip || n != 3 || in.delivered != 0 || in.parsed != in.filled {
		t.Errorf("kind %v, %d bytes, delivered %d, parsed %d of %d", k, n, in.delivered, in.parsed, in.filled)
	}
}
