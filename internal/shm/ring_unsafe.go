package shm

// Unsafe because the ring lies in memory that another process maps: words are read and written at their addresses,
// and records are handed out as slices of it. Every offset is masked or checked against the space before it becomes
// an address.

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Writer is the writing side of a ring. One goroutine at a time.
type Writer struct {
	base    unsafe.Pointer // of the space
	mask    uint64         // its size less one
	tail    uint64         // where the next record goes
	ready   uint64         // a short one that ends up to here simply follows
	short   int            // up to this length
	lately  uint64         // taken by long records since Fetch
	few     uint           // how many they are
	cleared uint64         // words from tail up to here are zero
	limit   uint64         // up to here the reader has released, seen from the writer
	head    *uint64        // the reader's position, shared
	turn    uint64         // where the first part ends
	lap     uint64         // what it is confined to
	max     int            // length of a record, for now
	most    int            // and ever
	calm    int            // how often short records were seen to since the last long one
	copier  Copier         // of long records
}

// Reader is the reading side of a ring. One goroutine at a time.
type Reader struct {
	base unsafe.Pointer
	mask uint64 // size of the space less one
	pos  uint64 // next record
	like uint64 // the word of the last one
	n    int    // its length
	size uint64 // what it took in the space
	room uint64 // where the last place for another is
	max  uint64 // length of a record at most
	kept uint64 // room that may be kept back
	told uint64 // what *head says
	head *uint64
}

// NewWriter lays the writing side over zeroed memory of RingBytes length, which must stay mapped while it is used. It puts no
// record longer than most.
func NewWriter(mem []byte, most int) (*Writer, error) {
	n, err := spaceOf(mem)
	if err != nil {
		return nil, err
	}
	p := unsafe.Pointer(unsafe.SliceData(mem))
	w := &Writer{
		base: unsafe.Add(p, spaceStart), mask: n - 1, cleared: n, limit: n, head: (*uint64)(p), turn: min(n/4, partBytes), most: most,
	}
	w.Confine(int(n))
	return w, nil
}

// Confine makes the first n bytes of the space, a multiple of the unit and at least 4096, all that is used from now on. They are
// at least as many as before, unless nothing has been put yet.
func (w *Writer) Confine(n int) {
	w.lap, w.max = uint64(n), min(w.most, MaxRecord(n))
	w.short = min(w.max, longBytes-1)
}

// Room tells what the writer is confined to.
func (w *Writer) Room() int { return int(w.lap) }

// Long tells how many long records have been put.
func (w *Writer) Long() uint { return w.copier.n }

// NewReader lays the reading side over the same memory. A record longer than most is none that the writer makes.
func NewReader(mem []byte, most int) (*Reader, error) {
	n, err := spaceOf(mem)
	if err != nil {
		return nil, err
	}
	p := unsafe.Pointer(unsafe.SliceData(mem))
	return &Reader{
		base: unsafe.Add(p, spaceStart), mask: n - 1, like: recordBit, size: recordSize(0),
		room: n - recordSize(0), head: (*uint64)(p), max: uint64(min(most, MaxRecord(int(n)))),
		kept: min(n/16-1, keptBytes),
	}, nil
}

func (w *Writer) at(pos uint64) unsafe.Pointer { return unsafe.Add(w.base, pos&w.mask) }

// Put copies a and b into the ring as one record and publishes it. It reports false if there is no room now.
func (w *Writer) Put(a, b []byte) (bool, error) {
	n := len(a) + len(b)
	size := recordSize(n)
	end := w.tail + size
	if n > w.short || end > w.ready {
		return w.putOther(a, b)
	}
	p := w.at(w.tail)
	put(unsafe.Add(p, wordBytes), a, b)
	StoreRelease64((*uint64)(p), recordBit|uint64(n))
	if w.tail = end; end+size > w.ready {
		w.ahead(size)
	}
	return true, nil
}

// putOther is Put for a record that is long, or does not simply follow where words are clear.
func (w *Writer) putOther(a, b []byte) (bool, error) {
	n := len(a) + len(b)
	at, err := w.prepare(n)
	if err != nil || at == refused {
		return false, err
	}
	size := recordSize(n)
	end := at + size
	p := w.at(at)
	if len(b) < longBytes {
		put(unsafe.Add(p, wordBytes), a, b)
	} else {
		to := unsafe.Slice((*byte)(unsafe.Add(p, wordBytes)), n)
		w.copier.Copy(to[copy(to, a):], b)
	}
	word := recordBit | uint64(n)
	if w.calm++; len(b) >= longBytes {
		w.calm = 0
	} else if end&w.mask >= w.turn && w.calm >= calm {
		end, word = w.turnAt(end, size, word)
	}
	StoreRelease64((*uint64)(p), word)
	if at != w.tail {
		StoreRelease64((*uint64)(w.at(w.tail)), skipBit)
	}
	w.tail = end
	if len(b) < longBytes {
		w.ahead(size)
	} else {
		w.lately += size
		w.few++
		w.follow()
	}
	return true, nil
}

// ahead does what the next record needs if it is like the last one, which was short and of this size, after that has been
// published and nobody waits for it: it finds out how far the reader is and clears words, at the start as well if there will be a
// turn. So the lines are this core's when the record is written.
func (w *Writer) ahead(size uint64) {
	end := w.tail + size
	if next := end + unitBytes; next > w.cleared {
		to := max(next, w.tail+aheadBytes)
		if to > w.limit {
			w.look()
		}
		w.clear(w.tail, to)
	}
	if end >= w.tail&^w.mask+w.turn && w.calm+1 >= calm {
		start := w.start(w.tail)
		if start+size+unitBytes > w.limit {
			w.look()
		}
		w.zero(start, start+max(size+unitBytes, aheadBytes))
	}
	w.follow()
}

// follow finds out how far short records simply follow: where words are clear, within the first part.
func (w *Writer) follow() {
	w.ready = min(w.cleared-unitBytes, w.tail&^w.mask+w.turn-1)
}

// Behind tells whether Fetch has something to do.
func (w *Writer) Behind() bool { return w.lately != 0 }

// Fetch clears words for as many long records as were put since it was called last, but not for many. A word is in every line of
// the space, so this fetches the lines back from the reader's cache. It is for when there is nothing else to do: whoever writes
// the next record has half the work then.
func (w *Writer) Fetch() {
	next, few := w.tail+min(w.lately, fetchBytes)+unitBytes, w.few
	w.lately, w.few = 0, 0
	if w.copier.far || w.copier.timed(few) { // past the caches, or to find out whether it should be
		return
	}
	if next > w.limit {
		w.look()
	}
	w.clear(w.tail, next)
	w.follow()
}

// look finds out how far the reader has released.
func (w *Writer) look() {
	if head := atomic.LoadUint64(w.head); head <= w.tail && head+w.mask >= w.limit && head%unitBytes == 0 {
		w.limit = head + w.mask + 1
	}
}

// start is where the space starts next, seen from a position in it.
func (w *Writer) start(pos uint64) uint64 { return (pos | w.mask) + 1 }

// turnAt goes back to the start after a record of this size that ends behind the first part, if the reader is known
// to have released enough there.
func (w *Writer) turnAt(end, size, word uint64) (uint64, uint64) {
	start := w.start(end)
	if start+size+unitBytes > w.limit {
		return end, word
	}
	w.cleared = w.zero(start, start+unitBytes)
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
	p = unsafe.Add(p, len(a))
	switch len(b) {
	case 0:
	case 8:
		*(*uint64)(p) = *(*uint64)(unsafe.Pointer(unsafe.SliceData(b)))
	default:
		copy(unsafe.Slice((*byte)(p), len(b)), b)
	}
}

// Far tells whether the reader's core was found to be far away.
func (w *Writer) Far() bool { return w.copier.Far() }

// refused is no position: there is no room.
const refused = ^uint64(0)

// prepare finds room for a record of n bytes that does not simply follow, and clears the word behind it.
func (w *Writer) prepare(n int) (uint64, error) {
	if n > w.max {
		return refused, fmt.Errorf("shm: a message of %d bytes, at most %d fit", n, w.max)
	}
	size := recordSize(n)
	at := w.tail
	if at&w.mask+size+unitBytes > w.lap { // behind it stays room for the word that says so
		at = (at | w.mask) + 1
	}
	end := at + size
	if end+unitBytes > w.limit {
		head := atomic.LoadUint64(w.head)
		if head > w.tail || head+w.mask+1 < w.limit || head%unitBytes != 0 {
			return refused, fmt.Errorf("%w: reader at %d, writer at %d", ErrCorrupt, head, w.tail)
		}
		if w.limit = head + w.mask + 1; end+unitBytes > w.limit {
			return refused, nil
		}
	}
	w.clear(end, end+unitBytes)
	return at, nil
}

// clear makes the words from one position to another zero, to the end of the lap at most.
func (w *Writer) clear(from, to uint64) {
	w.cleared = w.zero(max(from, w.cleared), min(to, from&^w.mask+w.lap))
}

// zero makes words zero as far as the reader has released them, and returns how far that was: from itself if there are none.
func (w *Writer) zero(from, to uint64) uint64 {
	for to = min(to, w.limit); from < to; from += unitBytes {
		*(*uint64)(w.at(from)) = 0
	}
	return from
}

// Ready tells whether a record waits.
func (r *Reader) Ready() bool {
	return atomic.LoadUint64((*uint64)(unsafe.Add(r.base, r.pos&r.mask))) != 0
}

// Same returns the next record if it is of the same length as the last, or nil. It is Next without a call, and the address of the
// record after it follows from the last one's length: so the processor may ask for the lines of several records at once, where
// it would wait for each line, if that told where the next one is.
func (r *Reader) Same() []byte {
	at := r.pos & r.mask
	if atomic.LoadUint64((*uint64)(unsafe.Add(r.base, at))) != r.like || at > r.room {
		return nil
	}
	r.pos += r.size
	return unsafe.Slice((*byte)(unsafe.Add(r.base, at+wordBytes)), r.n)
}

// Expect is for who has found nothing and expects a record like the last one at any moment. The other lines of a record of two
// or three are asked for: then they come along with the first once they are written, and not after it. Of longer ones the writer
// would lose more by that than the reader gains, as it has to take each line back before it writes. Looking at the first line all
// the time costs the writer the same, so where that is all there is to do the reader pauses.
func (r *Reader) Expect() {
	at := r.pos & r.mask
	if r.size == unitBytes || r.size > 3*unitBytes || at%pageBytes+r.size > pageBytes { // the next page may have no memory yet
		pause()
		return
	}
	atomic.LoadUint64((*uint64)(unsafe.Add(r.base, at+unitBytes)))
	atomic.LoadUint64((*uint64)(unsafe.Add(r.base, at+r.size-unitBytes)))
}

// Next returns the next record, or nil if there is none. The bytes are the ring's own until Release. A misbehaving
// writer may change them at any time: what is checked must be copied first.
func (r *Reader) Next() ([]byte, error) {
	at := r.pos & r.mask
	word := atomic.LoadUint64((*uint64)(unsafe.Add(r.base, at)))
	n := word ^ recordBit
	if n > r.max {
		return r.other(word)
	}
	size := recordSize(int(n))
	if at+size > r.mask+1 {
		return nil, r.corrupt(word)
	}
	r.like, r.n, r.size, r.room = word, int(n), size, r.mask+1-size
	r.pos += size
	return unsafe.Slice((*byte)(unsafe.Add(r.base, at+wordBytes)), n), nil
}

// other is Next where the word is not that of a record which the next one follows.
func (r *Reader) other(word uint64) ([]byte, error) {
	if word == 0 {
		return nil, nil
	}
	if word == skipBit {
		r.turn()
		word = atomic.LoadUint64((*uint64)(r.base))
	}
	at := r.pos & r.mask
	n := word&^turnBit ^ recordBit
	size := recordSize(int(n))
	if n > r.max || at+size > r.mask+1 {
		return nil, r.corrupt(word)
	}
	if r.pos += size; word&turnBit != 0 {
		r.turn()
	}
	return unsafe.Slice((*byte)(unsafe.Add(r.base, at+wordBytes)), n), nil
}

// turn goes on to where the space starts again, unless it is there.
func (r *Reader) turn() { r.pos = (r.pos + r.mask) &^ r.mask }

func (r *Reader) corrupt(word uint64) error {
	return fmt.Errorf("%w: word %#x at %d", ErrCorrupt, word, r.pos)
}

// Release gives the room of all records returned so far back to the writer. It tells the writer only when some has gathered,
// so that the line with the position rarely moves between the caches, and reports whether it did. Whoever waits
// releases first: the room of a record that is held may be all the writer lacks.
func (r *Reader) Release() bool {
	if r.pos-r.told <= r.kept {
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
