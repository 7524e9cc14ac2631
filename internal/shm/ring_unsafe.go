package shm

// Unsafe because the ring lies in memory that another process maps: words are read and written at their addresses,
// and records are handed out as slices of it. Every offset is masked or checked against the space before it becomes
// an address.

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"
)

// Writer is the writing side of a ring. One goroutine at a time.
type Writer struct {
	base    unsafe.Pointer // of the space
	size    uint64
	tail    uint64  // where the next record goes
	cleared uint64  // words from tail up to here are zero
	limit   uint64  // up to here the reader has released, seen from the writer
	head    *uint64 // the reader's position, shared
	turn    uint64  // where the first part ends
	max     int
	long    uint          // long records so far
	pace    time.Duration // the least time of the last samples, for 64 KiB
	far     bool          // the reader's core is far away
}

// Reader is the reading side of a ring. One goroutine at a time.
type Reader struct {
	base unsafe.Pointer
	size uint64
	pos  uint64 // next record
	told uint64 // what *head says
	head *uint64
	max  int
}

// NewWriter lays the writing side over zeroed memory of RingBytes length, which must stay mapped while it is used.
func NewWriter(mem []byte) (*Writer, error) {
	n, err := spaceOf(mem)
	if err != nil {
		return nil, err
	}
	p := unsafe.Pointer(unsafe.SliceData(mem))
	return &Writer{
		base: unsafe.Add(p, spaceStart), size: n, cleared: n, limit: n, head: (*uint64)(p),
		turn: n / 4, max: MaxRecord(int(n)),
	}, nil
}

// NewReader lays the reading side over the same memory.
func NewReader(mem []byte) (*Reader, error) {
	n, err := spaceOf(mem)
	if err != nil {
		return nil, err
	}
	p := unsafe.Pointer(unsafe.SliceData(mem))
	return &Reader{base: unsafe.Add(p, spaceStart), size: n, head: (*uint64)(p), max: MaxRecord(int(n))}, nil
}

func (w *Writer) at(pos uint64) unsafe.Pointer { return unsafe.Add(w.base, pos&(w.size-1)) }

// Put copies a and b into the ring as one record and publishes it. It reports false if there is no room now.
func (w *Writer) Put(a, b []byte) (bool, error) {
	n := len(a) + len(b)
	size := recordSize(n)
	at := w.tail
	end := at + size
	if n > w.max || end&(w.size-1) < size && end&(w.size-1) != 0 || end+unitBytes > w.cleared {
		var err error
		if at, err = w.prepare(n); err != nil || at == refused {
			return false, err
		}
		end = at + size
	}
	p := w.at(at)
	if len(b) < longBytes {
		put(unsafe.Add(p, wordBytes), a, b)
	} else {
		w.putLong(unsafe.Slice((*byte)(unsafe.Add(p, wordBytes)), n), a, b)
	}
	word := recordBit | uint64(n)
	if end&(w.size-1) >= w.turn {
		end, word = w.turnAt(end, size, word)
	}
	StoreRelease64((*uint64)(p), word)
	if at != w.tail {
		StoreRelease64((*uint64)(w.at(w.tail)), skipBit)
	}
	w.tail = end
	if end+size+unitBytes > w.cleared && size <= aheadBytes {
		w.clear(end, end+size+aheadBytes)
	}
	return true, nil
}

// turnAt goes back to the start after a record of this size that ends behind the first part, if the reader is known
// to have released enough there. Otherwise it finds out for the next time.
func (w *Writer) turnAt(end, size, word uint64) (uint64, uint64) {
	start := (end + w.size - 1) &^ (w.size - 1)
	if start+size+unitBytes > w.limit {
		if head := atomic.LoadUint64(w.head); head <= w.tail && head+w.size > w.limit && head%unitBytes == 0 {
			w.limit = head + w.size
		}
		return end, word
	}
	w.clear(start, start+unitBytes)
	return start, word | turnBit
}

// put copies a and b to p. Short ones of whole words, as headers and the smallest messages are, go without a call.
func put(p unsafe.Pointer, a, b []byte) {
	if len(a) == 16 {
		from := unsafe.Pointer(unsafe.SliceData(a))
		*(*uint64)(p) = *(*uint64)(from)
		*(*uint64)(unsafe.Add(p, 8)) = *(*uint64)(unsafe.Add(from, 8))
	} else {
		copy(unsafe.Slice((*byte)(p), len(a)), a)
	}
	if p = unsafe.Add(p, len(a)); len(b) == 8 {
		*(*uint64)(p) = *(*uint64)(unsafe.Pointer(unsafe.SliceData(b)))
	} else {
		copy(unsafe.Slice((*byte)(p), len(b)), b)
	}
}

// putLong copies a and b to to, past the caches if the reader's core is far away. To find that out it takes the time of a
// few records now and then; the fastest counts.
func (w *Writer) putLong(to, a, b []byte) {
	to = to[copy(to, a):]
	i := w.long % sampleEvery
	w.long++
	if i >= samples {
		if w.far {
			Stream(to, b)
		} else {
			copy(to, b)
		}
		return
	}
	begin := time.Now()
	copy(to, b)
	pace := time.Since(begin) * (64 << 10) / time.Duration(len(b))
	if i == 0 || pace < w.pace {
		w.pace = pace
	}
	if i == samples-1 {
		w.far = w.pace > farPace
	}
}

// Far tells whether the reader's core was found to be far away: writing a long record fetches the lines of the ring back from
// its cache, which takes long.
func (w *Writer) Far() bool { return w.far }

// refused is no position: there is no room.
const refused = ^uint64(0)

// prepare finds room for a record of n bytes that does not simply follow, and clears the word behind it.
func (w *Writer) prepare(n int) (uint64, error) {
	if n > w.max {
		return refused, fmt.Errorf("shm: a message of %d bytes, at most %d fit", n, w.max)
	}
	size := recordSize(n)
	at := w.tail
	if left := w.size - at&(w.size-1); left < size {
		at += left
	}
	end := at + size
	if end+unitBytes > w.limit {
		head := atomic.LoadUint64(w.head)
		if head > w.tail || head+w.size < w.limit || head%unitBytes != 0 {
			return refused, fmt.Errorf("%w: reader at %d, writer at %d", ErrCorrupt, head, w.tail)
		}
		if w.limit = head + w.size; end+unitBytes > w.limit {
			return refused, nil
		}
	}
	w.clear(end, end+unitBytes)
	return at, nil
}

// clear makes the words from one position to another zero, as far as the reader has released them.
func (w *Writer) clear(from, to uint64) {
	from, to = max(from, w.cleared), min(to, w.limit)
	for ; from < to; from += unitBytes {
		*(*uint64)(w.at(from)) = 0
	}
	w.cleared = max(w.cleared, to)
}

// Ready tells whether a record waits.
func (r *Reader) Ready() bool {
	return atomic.LoadUint64((*uint64)(unsafe.Add(r.base, r.pos&(r.size-1)))) != 0
}

// Next returns the next record, or nil if there is none. The bytes are the ring's own until Release. A misbehaving
// writer may change them at any time: what is checked must be copied first.
func (r *Reader) Next() ([]byte, error) {
	p := unsafe.Add(r.base, r.pos&(r.size-1))
	word := atomic.LoadUint64((*uint64)(p))
	if word == 0 {
		return nil, nil
	}
	if word == skipBit {
		r.pos += r.size - r.pos&(r.size-1)
		p = r.base
		word = atomic.LoadUint64((*uint64)(p))
	}
	n := word&^turnBit ^ recordBit
	size := recordSize(int(n))
	if n > uint64(r.max) || r.pos&(r.size-1)+size > r.size {
		return nil, fmt.Errorf("%w: word %#x at %d", ErrCorrupt, word, r.pos)
	}
	r.pos += size
	if word&turnBit != 0 {
		r.pos = (r.pos + r.size - 1) &^ (r.size - 1)
	}
	return unsafe.Slice((*byte)(unsafe.Add(p, wordBytes)), n), nil
}

// Release gives the room of all records returned so far back to the writer. It tells the writer only when a sixteenth
// has gathered, so that the line with the position rarely moves between the caches, and reports whether it did. Whoever waits
// releases first: the room of a record that is held may be all the writer lacks.
func (r *Reader) Release() bool {
	if r.pos-r.told <= r.size>>4 {
		return false
	}
	r.told = r.pos
	StoreRelease64(r.head, r.pos)
	return true
}

// Words are words of the page that a ring begins with. The ring does not use them; both sides may.
func Words(mem []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(mem[spaceStart/2:spaceStart]))), spaceStart/2/8)
}
