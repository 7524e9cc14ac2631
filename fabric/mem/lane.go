package mem

import (
	"encoding/binary"
	"sync/atomic"
)

// Sizes of a lane, in bytes. A record is a head with the message's length, then the message, and a multiple of the
// head's size. It lies in one piece: where it would cross the ring's end it begins at the start again, behind a
// head that says so. Two of the largest fill the ring, so there is always room for one of them in an empty ring.
const (
	ringBytes = 32 << 10
	headBytes = 8
	maxSend   = ringBytes/2 - headBytes
	wrapped   = ^uint64(0)
)

// lane leads from one peer to another. Positions count bytes from the beginning of time.
type lane struct {
	from int                     // the writer
	ring []byte                  // made by the writer before its first record
	end  atomic.Pointer[failure] // the writer has closed the lane, after its last record
	full atomic.Bool             // the writer found no room, and wants to be told when there is some
	_    [64]byte

	tail  atomic.Uint64 // where the next record will begin; the writer stores it
	freed uint64        // what the writer last saw in head
	_     [64]byte

	head atomic.Uint64 // up to here the writer may write again; the reader stores it
	at   uint64        // the next record to read
	seen uint64        // what the reader last saw in tail
	next *lane         // the reader's list of lanes that lend
	_    [64]byte
}

func recordBytes(n int) uint64 { return headBytes + uint64(n+headBytes-1)&^(headBytes-1) }

// put copies a message of at most maxSend bytes into the ring, or reports that there is no room.
func (l *lane) put(header, payload []byte) bool {
	if l.ring == nil {
		l.ring = make([]byte, ringBytes)
	}
	n := len(header) + len(payload)
	size, tail := recordBytes(n), l.tail.Load()
	at, skip := tail%ringBytes, uint64(0)
	if left := ringBytes - at; left < size {
		skip = left
	}
	end := tail + skip + size
	if end-l.freed > ringBytes && !l.room(end) {
		return false
	}
	if skip > 0 {
		binary.LittleEndian.PutUint64(l.ring[at:], wrapped)
		at = 0
	}
	binary.LittleEndian.PutUint64(l.ring[at:], uint64(n))
	to := l.ring[at+headBytes:]
	copy(to[copy(to, header):], payload)
	l.tail.Store(end)
	return true
}

// room tells whether the reader has given back enough for records up to end. If not, its next release will say so.
func (l *lane) room(end uint64) bool {
	if l.freed = l.head.Load(); end-l.freed <= ringBytes {
		return true
	}
	l.full.Store(true)
	l.freed = l.head.Load() // the reader may have released just before
	return end-l.freed <= ringBytes
}

// take returns the next message, and whether there was one. It lies in the ring until release.
func (l *lane) take() ([]byte, bool) {
	if l.at == l.seen {
		if l.seen = l.tail.Load(); l.at == l.seen {
			return nil, false
		}
	}
	at := l.at % ringBytes
	n := binary.LittleEndian.Uint64(l.ring[at:])
	if n == wrapped {
		l.at += ringBytes - at
		at, n = 0, binary.LittleEndian.Uint64(l.ring)
	}
	l.at += recordBytes(int(n))
	at += headBytes
	return l.ring[at : at+n : at+n], true
}

// empty tells whether everything that was put has been taken.
func (l *lane) empty() bool { return l.at == l.tail.Load() }

// release gives the room of all messages taken so far back to the writer, and reports whether the writer wants to know.
func (l *lane) release() bool {
	l.head.Store(l.at)
	return l.full.Load() && l.full.CompareAndSwap(true, false)
}

// discard takes and releases whatever is there.
func (l *lane) discard() bool {
	l.seen = l.tail.Load()
	l.at = l.seen
	return l.release()
}
