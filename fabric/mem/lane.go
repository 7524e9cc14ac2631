package mem

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
)

// Sizes of a lane, in bytes. A record is a head with the message's length and the message, padded to a multiple of the
// head's size. It is contiguous: a record that would cross the end of the ring is written at the start instead, and a head with
// wrapMark fills its place. Two of the largest records fill the ring, so an empty ring always has room for one of them.
const (
	ringBytes = 32 << 10
	headBytes = 8
	maxSend   = ringBytes/2 - headBytes
	wrapMark  = ^uint64(0)
)

// lane carries messages from one peer to another. Positions are byte counts since the lane was created.
type lane struct {
	from int                     // the writer
	ring []byte                  // made by the writer before its first record
	end  atomic.Pointer[failure] // the writer has closed the lane, after its last record
	full atomic.Bool             // the writer found no room; the reader notifies it of room
	_    [64]byte

	tail     atomic.Uint64 // where the next record will begin; the writer stores it
	seenHead uint64        // the last value of head that the writer loaded
	_        [64]byte

	head     atomic.Uint64 // room before this position is free; the reader stores it
	readPos  uint64        // the next record to read
	seenTail uint64        // the last value of tail that the reader loaded
	next     *lane         // list of the reader's lanes with messages in use
	_        [64]byte
}

func recordBytes(n int) uint64 { return headBytes + uint64(n+headBytes-1)&^(headBytes-1) }

// put copies a message of at most maxSend bytes into the ring, or reports that there is no room.
func (l *lane) put(header, payload []byte) bool {
	to, end := l.reserve(len(header) + len(payload))
	if to == nil {
		return false
	}
	copy(to[copy(to, header):], payload)
	l.tail.Store(end)
	return true
}

// putFrom is put with a payload of n bytes of src, beginning with byte from. ok is false with an error if src is too short.
func (l *lane) putFrom(header []byte, src fabric.Source, from int64, n int) (ok bool, err error) {
	to, end := l.reserve(len(header) + n)
	if to == nil {
		return false, nil
	}
	if got := src.Pack(to[copy(to, header):], from); got != n {
		return false, fmt.Errorf("the source has %d bytes from byte %d on instead of %d", got, from, n)
	}
	l.tail.Store(end)
	return true, nil
}

// reserve returns room for a message of n bytes, and the tail that publishes it. It returns nil if there is no room.
func (l *lane) reserve(n int) (to []byte, end uint64) {
	if l.ring == nil {
		l.ring = make([]byte, ringBytes)
	}
	size, tail := recordBytes(n), l.tail.Load()
	at, skip := tail%ringBytes, uint64(0)
	if left := ringBytes - at; left < size {
		skip = left
	}
	end = tail + skip + size
	if end-l.seenHead > ringBytes && !l.hasRoom(end) {
		return nil, 0
	}
	if skip > 0 {
		binary.LittleEndian.PutUint64(l.ring[at:], wrapMark)
		at = 0
	}
	binary.LittleEndian.PutUint64(l.ring[at:], uint64(n))
	at += headBytes
	return l.ring[at : at+uint64(n)], end
}

// hasRoom reports whether there is room for records up to end. If not, the next release of the reader returns true.
func (l *lane) hasRoom(end uint64) bool {
	if l.seenHead = l.head.Load(); end-l.seenHead <= ringBytes {
		return true
	}
	l.full.Store(true)
	l.seenHead = l.head.Load() // the reader may have released just before
	return end-l.seenHead <= ringBytes
}

// get returns the next message, and whether there was one. It is valid until release.
func (l *lane) get() ([]byte, bool) {
	if l.readPos == l.seenTail {
		if l.seenTail = l.tail.Load(); l.readPos == l.seenTail {
			return nil, false
		}
	}
	at := l.readPos % ringBytes
	n := binary.LittleEndian.Uint64(l.ring[at:])
	if n == wrapMark {
		l.readPos += ringBytes - at
		at, n = 0, binary.LittleEndian.Uint64(l.ring)
	}
	l.readPos += recordBytes(int(n))
	at += headBytes
	return l.ring[at : at+n : at+n], true
}

// empty reports whether all messages have been received.
func (l *lane) empty() bool { return l.readPos == l.tail.Load() }

// release frees the room of all messages received so far, and reports whether the writer must be notified.
func (l *lane) release() bool {
	l.head.Store(l.readPos)
	return l.full.Load() && l.full.CompareAndSwap(true, false)
}

// discard drops all messages and releases their room. Its result is that of release.
func (l *lane) discard() bool {
	l.seenTail = l.tail.Load()
	l.readPos = l.seenTail
	return l.release()
}
