package tcp

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// pumpBytes is about how much one call receives into memory, so that it does not keep its caller.
	pumpBytes = 1 << 20
	// peep is how much is received beside what a Read has asked for: the headers between, and little that has to be copied.
	peep = 1 << 10
)

// pump receives what is there and looks at it. It reports whether anything came.
func (e *endpoint) pump() bool {
	moved := 0
	for moved < pumpBytes && e.fd >= 0 && e.end == nil && !e.pushes.here {
		room := e.room()
		if len(e.land) != 0 || e.reads.asked > 0 && e.pushes.skip == 0 {
			room = room[:min(len(room), max(peep, e.lacks()))]
		}
		if len(room) == 0 {
			break // the program has to take some first
		}
		if e.pushes.skip != 0 {
			room = room[:min(len(room), e.pushes.skip)]
		}
		var n int
		var errno unix.Errno
		if len(e.land) != 0 {
			if e.spoke && e.reads.waiting() > 0 && e.reads.long() {
				e.spoke = false
				quicken(e.fd)
			}
			n, errno = receiveParts(e.fd, e.land, room)
		} else {
			n, errno = receive(e.fd, room)
		}
		if errno == unix.EAGAIN {
			break
		}
		if n == 0 {
			e.lost(errno)
			return true
		}
		full := n == len(e.land)+len(room)
		moved += n
		if k := min(n, len(e.land)); k > 0 {
			e.landed(k)
			n -= k
		}
		if k := min(n, e.pushes.skip); k > 0 {
			e.pushes.skip -= k
			n -= k
		}
		e.have += n
		if !e.study() {
			return true
		}
		if !full {
			break
		}
	}
	if e.have == e.taken && !e.lent {
		e.discard()
	}
	return moved > 0
}

// room is where in buf the next bytes go. What is in buf moves to its beginning when that is less than what was taken, so that
// a program which takes one message at a time does not make us move the others each time.
func (e *endpoint) room() []byte {
	if e.buf == nil {
		e.buf = e.d.borrow()
	}
	if rest := e.have - e.taken; !e.lent && rest <= e.taken && (rest == 0 || len(e.buf)-e.have < headerBytes+maxSend) {
		copy(e.buf, e.buf[e.taken:e.have])
		e.seen -= e.taken
		e.have -= e.taken
		e.taken = 0
	}
	return e.buf[e.have:]
}

// lacks is how many bytes are missing of the frame that has come in part.
func (e *endpoint) lacks() int {
	if _, n, ok, err := parseFrame(e.buf[e.seen:e.have]); ok && err == nil {
		return headerBytes + n - (e.have - e.seen)
	}
	return 0
}

// discard gives the buffer back.
func (e *endpoint) discard() {
	if e.buf != nil && !e.lent {
		e.d.giveBack(e.buf)
		e.buf = nil
		e.taken, e.seen, e.have = 0, 0, 0
	}
}

// study is scan, and loses a peer that wrote what no peer writes. It reports false then.
func (e *endpoint) study() bool {
	err := e.scan()
	if err != nil {
		e.lose(fmt.Errorf("tcp: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, err))
	}
	return err == nil
}

// scan looks at the frames that have come. Messages stay where they are; the others are dealt with.
func (e *endpoint) scan() error {
	for e.end == nil && !e.pushes.here {
		k, n, ok, err := parseFrame(e.buf[e.seen:e.have])
		if err != nil || !ok {
			return err
		}
		at := e.seen + headerBytes
		if k == kindData {
			if err := e.data(e.buf[at:e.have], n); err != nil {
				return err
			}
			if n >= e.have-at { // the rest belongs to the Read: nothing stays here
				e.have = e.seen
				return nil
			}
		} else if n > e.have-at {
			return nil
		}
		switch k {
		case kindMessage:
			e.d.list(e)
		case kindRead:
			err = e.wanted(e.buf[at:][:n])
		case kindRefusal:
			err = e.refused()
		case kindPush:
			return e.pushed(e.buf[at:][:n])
		case kindDropped:
			e.pushes.cold = coldMessages
		case kindBye:
			e.lose(fmt.Errorf("tcp: peer %d: %w", e.peer, fabric.ErrPeerClosed))
			return nil
		}
		if err != nil {
			return err
		}
		if k == kindMessage {
			e.seen = at + n
		} else {
			e.pass(n)
		}
	}
	return nil
}

// pass goes on behind a frame of n bytes that was dealt with.
func (e *endpoint) pass(n int) {
	end := e.seen + headerBytes + n
	if e.taken == e.seen {
		e.taken = end
	} else { // behind messages that nobody has taken yet
		putFrame(e.buf[e.seen:], kindNothing, n)
	}
	e.seen = end
}

// lost is called when the connection has ended without a goodbye.
func (e *endpoint) lost(errno unix.Errno) {
	why := e.trouble // what sending has met came first
	if why == nil && errno != 0 {
		why = errno
	}
	if why == nil {
		e.lose(fmt.Errorf("tcp: peer %d: %w: the connection has ended without a goodbye", e.peer, fabric.ErrPeerDown))
		return
	}
	e.lose(fmt.Errorf("tcp: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, why))
}

// deliver fills evs with messages, and at last with the word that the peer has gone.
func (e *endpoint) deliver(evs []fabric.Event) int {
	if e.pushes.here && e.taken == e.seen && !e.lent {
		e.dropPushed() // the Poll that returned the message before it is over
	}
	n := 0
	for n < len(evs) && e.taken < e.seen {
		word := e.buf[e.taken:]
		k, size := kind(word[4]), int(uint32(word[0])|uint32(word[1])<<8|uint32(word[2])<<16|uint32(word[3])<<24)
		at := e.taken + headerBytes
		e.taken = at + size
		if k != kindMessage {
			continue
		}
		ev := &evs[n] // field by field: the others mean nothing here, and clearing them costs
		ev.Kind, ev.Peer, ev.Data, ev.Err = fabric.Message, e.peer, e.buf[at:at+size:at+size], nil
		n++
		if !e.lent {
			e.lent = true
			e.d.lent = append(e.d.lent, e)
		}
	}
	if n < len(evs) && e.taken == e.seen && e.end != nil && !e.told {
		e.told = true
		evs[n] = fabric.Event{Kind: fabric.PeerDown, Peer: e.peer, Err: e.end}
		n++
	}
	return n
}

// holds tells whether deliver has more to give.
func (e *endpoint) holds() bool { return e.taken < e.seen || e.pushes.here || e.end != nil && !e.told }
