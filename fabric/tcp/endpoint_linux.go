package tcp

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// bufferBytes is the length of a buffer, for either direction: so that a message fits behind one that is shorter.
	bufferBytes = 2 * (headerBytes + maxSend)
	// joined is the size up to which copying a message behind its frame header costs less than naming three parts.
	joined = 1 << 10
	// flushBytes is about how much one call sends of what waits, so that it does not keep its caller.
	flushBytes = 1 << 20
)

// state is how far the way to a peer has come.
type state uint8

const (
	unknown state = iota // nobody has called
	calling              // called, or about to be
	up
	leaving // closed here; what was sent before is still on its way to the kernel
	over    // lost, or closed by either side
)

// endpoint is the connection with one peer. The domain's mutex guards it.
type endpoint struct {
	d     *Domain
	peer  int32
	fd    int
	state state
	why   error // what Send answers where it is over or leaving

	// Receiving: frames in buf, of which those before seen were looked at and those before taken given away.
	buf               []byte // nil: holds nothing
	taken, seen, have int
	lent              bool   // events refer to buf
	listed            bool   // in Domain.full: there are messages in buf, or the end is to be told
	hot               bool   // in Domain.hot
	idle              int    // polls that found nothing since it was busy last, while hot
	busy              int    // polls that found something since the program slept last, while hot
	resent            uint32 // of Domain.resent
	unwatched         bool   // epoll does not know the socket
	land              []byte // where the next bytes belong that are received: memory of the oldest Read, or of one that was awaited
	end               error  // why nothing comes any more: to be told when buf is empty
	told              bool   // that it has ended
	spoke             bool   // something was sent since quicken
	reads             reads
	pushes            pushes

	// Sending: what waits for the kernel, in this order.
	head    []byte // of the frame that body belongs to
	body    []byte // memory that a peer reads, or may
	key     uint64 // its region
	out     []byte // nil: nothing waits
	sent    int    // of out
	header  [2*headerBytes + pushHeader + requestBytes]byte
	serving serving
	pending bool // in Domain.pending
	watched bool // epoll tells when there is room

	// Calling.
	places  []netip.AddrPort // to be tried in turn
	place   int
	attempt *greeting // nil: none is under way
	retry   time.Time // when to begin the next
	backoff time.Duration
	give    time.Time // when to give up
	trouble error     // what the last attempt failed with
}

// Send sends one message at once, or from the connection's buffer, or refuses it.
func (e *endpoint) Send(header, payload []byte) error {
	e.d.mu.Lock()
	err := e.send(header, payload)
	e.d.mu.Unlock()
	return err
}

func (e *endpoint) send(header, payload []byte) error {
	n := len(header) + len(payload)
	if n > maxSend {
		return fmt.Errorf("tcp: message of %d bytes, at most %d can be sent", n, maxSend)
	}
	switch {
	case e.state != up:
		return e.unready()
	case e.fd < 0:
		return e.sendSelf(header, payload)
	case e.waits():
		return e.enqueue(kindMessage, header, payload, 0)
	}
	e.spoke = true
	h := e.d.scratch[:headerBytes]
	putFrame(h, kindMessage, n)
	var sent int
	var errno unix.Errno
	if n <= joined {
		b := append(append(h, header...), payload...)
		sent, errno = send(e.fd, b)
	} else {
		sent, errno = sendParts(e.fd, h, header, payload, false)
	}
	if sent == headerBytes+n {
		return nil
	}
	if errno != 0 && errno != unix.EAGAIN {
		return e.broken(errno)
	}
	return e.enqueue(kindMessage, header, payload, sent)
}

// unready says why nothing can be sent.
func (e *endpoint) unready() error {
	if e.state == unknown || e.state == calling {
		return fabric.ErrAgain
	}
	return e.why
}

// broken is called when the kernel takes nothing any more. Receiving finds out why, after what the peer has sent before.
func (e *endpoint) broken(errno unix.Errno) error {
	if e.trouble == nil {
		e.trouble = errno
	}
	return fabric.ErrAgain
}

// waits tells whether something has to go before the next message.
func (e *endpoint) waits() bool { return len(e.out) != 0 || len(e.body) != 0 || len(e.head) != 0 }

// enqueue puts a frame behind what waits, all but its first bytes that the kernel has taken; or refuses it.
func (e *endpoint) enqueue(k kind, header, payload []byte, gone int) error {
	n := headerBytes + len(header) + len(payload)
	if e.out == nil {
		e.out = e.d.borrow()[:0]
	}
	room := cap(e.out) - len(e.out)
	if k != kindBye {
		room -= headerBytes // a goodbye always fits behind
	}
	if n-gone > room {
		if n-gone > room+e.sent {
			return fabric.ErrAgain
		}
		e.out = e.out[:copy(e.out, e.out[e.sent:])]
		e.sent = 0
	}
	at := len(e.out)
	e.out = e.out[:at+headerBytes]
	putFrame(e.out[at:], k, len(header)+len(payload))
	if gone > 0 { // it is the first that waits
		e.out = append(e.out[:0], e.out[min(gone, headerBytes):]...)
	}
	gone = max(gone-headerBytes, 0)
	k1 := min(gone, len(header))
	e.out = append(e.out, header[k1:]...)
	e.out = append(e.out, payload[gone-k1:]...)
	e.d.await(e)
	return nil
}

// control sends a frame of this package. It reports false if there is no room.
func (e *endpoint) control(k kind, body []byte) bool {
	if e.waits() {
		return e.enqueue(k, body, nil, 0) == nil
	}
	e.spoke = true
	b := e.d.scratch[:headerBytes]
	putFrame(b, k, len(body))
	sent, errno := send(e.fd, append(b, body...))
	if errno != 0 && errno != unix.EAGAIN {
		return e.broken(errno) == nil
	}
	return sent == headerBytes+len(body) || e.enqueue(k, body, nil, sent) == nil
}

// flush sends what waits, as far as the kernel takes it, and reports whether anything went.
func (e *endpoint) flush() bool {
	moved := 0
	for moved < flushBytes && e.fd >= 0 && (e.waits() || e.serve()) {
		n, errno := sendParts(e.fd, e.head, e.body, e.out[e.sent:], e.serving.more && len(e.out) == 0)
		if errno != 0 {
			if errno == unix.EFAULT {
				e.lose(fmt.Errorf("tcp: peer %d: %w: memory that it reads is not there: %w", e.peer, fabric.ErrPeerDown, errno))
			} else if errno != unix.EAGAIN {
				_ = e.broken(errno) // told by receiving
			}
			break
		}
		moved += n
		e.spoke = true
		e.gone(n)
	}
	e.request()
	return moved > 0
}

// gone takes away the first n bytes of what waits.
func (e *endpoint) gone(n int) {
	k := min(n, len(e.head))
	e.head = e.head[k:]
	n -= k
	k = min(n, len(e.body))
	e.body = e.body[k:]
	n -= k
	if e.sent += n; e.sent == len(e.out) && e.out != nil {
		e.d.giveBack(e.out)
		e.out, e.sent = nil, 0
	}
}

// sendSelf puts a message of this peer to itself where it would be received.
func (e *endpoint) sendSelf(header, payload []byte) error {
	n := headerBytes + len(header) + len(payload)
	room := e.room()
	if len(room) < n {
		return fabric.ErrAgain
	}
	putFrame(room, kindMessage, len(header)+len(payload))
	k := copy(room[headerBytes:], header)
	copy(room[headerBytes+k:], payload)
	e.have += n
	e.seen = e.have
	e.d.list(e)
	return nil
}

// Stream is 0: what is longer than a message is pushed, which copies it once less.
func (e *endpoint) Stream() int { return 0 }

// Write is not possible: memory is streamed to whoever reads it, not into peers.
func (e *endpoint) Write([]byte, fabric.Region, fabric.RemoteKey, uint64) (bool, error) {
	return false, fmt.Errorf("%w: tcp writes no memory of peers; they read", fabric.ErrNotSupported)
}

// Close says goodbye to the peer. What was sent before still goes.
func (e *endpoint) Close() error {
	e.d.mu.Lock()
	defer e.d.mu.Unlock()
	if e.state == leaving || e.why == fabric.ErrClosed {
		return nil
	}
	e.leave()
	return nil
}

// leave ends the way from this side.
func (e *endpoint) leave() {
	connected := e.state == up && e.fd >= 0
	e.why = fabric.ErrClosed
	e.failReads(fabric.ErrClosed)
	e.told, e.land, e.pushes = true, nil, pushes{}
	e.taken, e.seen = e.have, e.have
	e.discard()
	e.d.cool(e)
	if !connected {
		e.drop()
		e.state = over
		return
	}
	e.state = leaving
	e.serving = serving{}
	if !e.control(kindBye, nil) {
		e.drop()
	}
}

// lose ends the way because the peer has gone. What it had sent before is told first.
func (e *endpoint) lose(why error) {
	if e.state == leaving || e.state == over {
		e.drop()
		return
	}
	e.end, e.why = why, why
	e.drop()
	e.failReads(why)
	e.d.list(e)
}

// drop closes the socket and forgets what waits for it.
func (e *endpoint) drop() {
	e.state = over
	if e.attempt != nil {
		e.d.dismiss(e.attempt)
	}
	if e.fd >= 0 {
		e.look()
		e.d.note(shut(e.fd))
		e.fd = -1
	}
	e.gone(len(e.head) + len(e.body) + len(e.out) - e.sent)
	e.serving, e.land = serving{}, nil
	e.pushes.here, e.pushes.skip = false, 0
	e.have = e.seen // the rest does not come
	e.d.cool(e)
}
