package tcp

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// Memory that goes ahead of the Read which is expected for it. It follows its kindPush in the stream, and the receiver looks no
// further until it has been read, or the program has had the chance to.

// pushes is what an endpoint knows of what comes that way, and of what may go.
type pushes struct {
	here  bool    // some has come that nobody has read yet: its kindPush begins at seen
	what  request // and that is what it is
	lands bool    // some has been read, and endpoint.land is where its rest belongs
	ends  bool    // a Read is over when that is there; otherwise the peer is asked for more, which comes behind
	token uint64  // of that Read
	skip  int     // bytes that come next, after those, and that nobody wants
	cold  int     // messages behind which nothing is to go, as the peer had to drop some
}

const (
	// pushHeader is the longest header of a message behind which memory goes.
	pushHeader = 64
	// coldMessages is how long a peer is left in peace that did not expect what it got.
	coldMessages = 16
)

// Push is Send for the header, and sends the memory, or its beginning, behind it if nothing waits for the kernel.
func (e *endpoint) Push(header []byte, src fabric.RemoteKey, n int) error {
	d := e.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if min(n, d.pushMost) == 0 || len(header) > pushHeader || e.state != up || e.fd < 0 || e.waits() || e.serving.many > 0 {
		return e.send(header, nil)
	}
	q := request{src, uint64(min(n, d.pushMost))}
	mem, ok := d.regions.find(q)
	if !ok {
		return e.send(header, nil)
	}
	if e.pushes.cold > 0 {
		e.pushes.cold--
		return e.send(header, nil)
	}
	e.spoke = true
	b := d.scratch[:headerBytes]
	putFrame(b, kindMessage, len(header))
	b = append(b, header...)
	at := len(b)
	b = b[:at+headerBytes]
	putFrame(b[at:], kindPush, requestBytes)
	b = q.append(b)
	sent, _ := sendParts(e.fd, b, mem, nil, false)
	if sent == 0 { // for a reason that is found again
		return e.send(header, nil)
	}
	k := min(sent, len(b))
	e.head = e.header[:copy(e.header[:], b[k:])]
	e.body, e.key = mem[sent-k:], src.Key
	if e.waits() {
		d.await(e)
	}
	return nil
}

// pushed handles kindPush.
func (e *endpoint) pushed(b []byte) error {
	q, _ := parseRequest(b)
	if q.bytes == 0 || q.bytes > PushBytes {
		return fmt.Errorf("%w: %d bytes that nobody has asked for", fabric.ErrCorrupt, q.bytes)
	}
	e.pushes.here, e.pushes.what = true, q
	e.d.list(e)
	return nil
}

// awaited tells whether a Read from src is one of what has come, or begins with it. It may belong to another message: as long as
// that one waits to be read, its memory stays as it is, too.
func (e *endpoint) awaited(src fabric.RemoteKey) bool {
	return e.pushes.here && e.pushes.what.src == src
}

// readPushed is Read for what has come. It asks for what is missing before it takes the beginning.
func (e *endpoint) readPushed(dst []byte, token uint64) (done bool) {
	p := &e.pushes
	p.ends, p.token = uint64(len(dst)) <= p.what.bytes, token
	if !p.ends {
		n, src := int(p.what.bytes), p.what.src
		src.Addr += p.what.bytes
		e.reads.push(reading{dst[n:], src, token})
		e.request()
		dst = dst[:n]
	}
	came, missing := e.consume(dst)
	if came < len(dst) {
		e.land, p.lands = dst[came:], true
		p.skip = missing - len(e.land)
		return false
	}
	p.skip = missing
	e.study()
	return p.ends
}

// dropPushed drops what has come, and tells the peer so if it was too early. Otherwise it has been asked for already.
func (e *endpoint) dropPushed() {
	if !e.reads.want(e.pushes.what.src) {
		e.control(kindDropped, nil) // or not: the peer sends more than it would then
	}
	_, e.pushes.skip = e.consume(nil)
	e.study()
}

// consume takes what has come out of the buffer, and copies it to dst as far as that reaches. It returns how many bytes were
// there, and how many are still to come.
func (e *endpoint) consume(dst []byte) (came, missing int) {
	at, n := e.seen+headerBytes+requestBytes, int(e.pushes.what.bytes)
	e.pushes.here = false
	if came = e.have - at; came >= n {
		copy(dst, e.buf[at:at+n])
		e.pass(requestBytes + n)
		return n, 0
	}
	copy(dst, e.buf[at:e.have])
	e.have = e.seen
	return came, n - came
}
