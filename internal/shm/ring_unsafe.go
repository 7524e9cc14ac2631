package shm

// Unsafe because the ring lies in memory that another process maps: words are read and written at their addresses,
// and records are returned as slices of it. Every offset is masked or checked against the space before it becomes
// an address.

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Writer is the writing side of a ring. One goroutine at a time may use it. All positions and lengths are in bytes.
type Writer struct {
	base        unsafe.Pointer // first byte of the space
	mask        uint64         // size of the space less one
	tail        uint64         // position of the next record
	fastEnd     uint64         // a short record that ends here or before takes the fast path of Put: no wrap, no check for room
	maxShort    int            // length of the longest record that may take the fast path
	longBytes   uint64         // size of the long records that were put since the last Prefetch
	longRecords uint           // number of these records
	cleared     uint64         // the words between tail and this position are zero
	limit       uint64         // position up to which the writer may write: the last known head plus the size of the space
	head        *uint64        // the reader's position, in shared memory: stored by Reader.Release
	shortArea   uint64         // offset in the space where the short-record area ends
	capacity    uint64         // size of the part of the space that is used, see SetCapacity
	maxLen      int            // length of the longest record with this capacity
	lenLimit    int            // length of the longest record with any capacity
	shortInRow  int            // short records in putSlow since the last long record
	copier      Copier         // copies the payloads of long records
	long        uint           // long records that were put
}

// Reader is the reading side of a ring. One goroutine at a time may use it. All positions and lengths are in bytes.
type Reader struct {
	base       unsafe.Pointer // first byte of the space
	mask       uint64         // size of the space less one
	pos        uint64         // position of the next record
	lastWord   uint64         // the word of the last record that Next took on its fast path
	lastLen    int            // length of that record
	lastSize   uint64         // size of that record in the space
	lastFit    uint64         // the last offset in the space where a record of this size fits
	maxLen     uint64         // length of the longest record that is accepted
	batchBytes uint64         // Release publishes the position once more than this has been read
	released   uint64         // the position that was published last
	head       *uint64        // where the position is published, in shared memory: loaded by loadHead and reserve of Writer
}

// NewWriter makes the writing side of a ring in mem, which has RingBytes bytes, is zero, and must stay mapped while the writer is
// used. The writer puts no record longer than most.
func NewWriter(mem []byte, most int) (*Writer, error) {
	n, err := spaceSize(mem)
	if err != nil {
		return nil, err
	}
	p := unsafe.Pointer(unsafe.SliceData(mem))
	w := &Writer{
		base: unsafe.Add(p, spaceStart), mask: n - 1, cleared: n, limit: n, head: (*uint64)(p),
		shortArea: min(n/4, shortAreaBytes), lenLimit: most,
	}
	w.SetCapacity(int(n))
	return w, nil
}

// SetCapacity confines the writer to the first n bytes of the space. n is a multiple of the cache line size and at least 4096. It
// must not be less than before, unless nothing has been put yet.
func (w *Writer) SetCapacity(n int) {
	w.capacity, w.maxLen = uint64(n), min(w.lenLimit, MaxRecord(n))
	w.maxShort = min(w.maxLen, longPayload-1)
}

// Capacity returns how many bytes of the space the writer uses.
func (w *Writer) Capacity() int { return int(w.capacity) }

// LongCount returns how many long records have been put.
func (w *Writer) LongCount() uint { return w.long }

// NewReader makes the reading side of a ring in the same memory. It rejects a record longer than most as corrupt.
func NewReader(mem []byte, most int) (*Reader, error) {
	n, err := spaceSize(mem)
	if err != nil {
		return nil, err
	}
	p := unsafe.Pointer(unsafe.SliceData(mem))
	return &Reader{
		base: unsafe.Add(p, spaceStart), mask: n - 1, lastWord: recordBit, lastSize: recordSize(0),
		lastFit: n - recordSize(0), head: (*uint64)(p), maxLen: uint64(min(most, MaxRecord(int(n)))),
		batchBytes: min(n/16-1, releaseBatch),
	}, nil
}

// at returns the address of a position.
func (w *Writer) at(pos uint64) unsafe.Pointer { return unsafe.Add(w.base, pos&w.mask) }

// Put copies a and b into the ring as one record and publishes it: the release store of the word comes last, and its partner is
// the atomic load of the word by the reader. Put returns false if there is no room now.
func (w *Writer) Put(a, b []byte) (bool, error) {
	n := len(a) + len(b)
	size := recordSize(n)
	end := w.tail + size
	if n > w.maxShort || end > w.fastEnd {
		return w.putSlow(a, b)
	}
	p := w.at(w.tail)
	copyPair(unsafe.Add(p, wordBytes), a, b)
	StoreRelease64((*uint64)(p), recordBit|uint64(n))
	if w.tail = end; end+size > w.fastEnd {
		w.prepareNext(size)
	}
	return true, nil
}

// putSlow is Put for a record that is long, or that ends behind fastEnd. If the record is at the start of the space, the word at
// the old tail is stored after it: skipBit leads the reader there.
func (w *Writer) putSlow(a, b []byte) (bool, error) {
	n := len(a) + len(b)
	at, err := w.reserve(n)
	if err != nil || at == noRoom {
		return false, err
	}
	p := w.at(at)
	if len(b) < longPayload {
		copyPair(unsafe.Add(p, wordBytes), a, b)
	} else {
		to := unsafe.Slice((*byte)(unsafe.Add(p, wordBytes)), n)
		w.copier.Copy(to[copy(to, a):], b)
	}
	w.publish(at, n, len(b))
	return true, nil
}

// Packer is data that is copied into a record from where its parts are.
type Packer interface {
	// Pack copies bytes to dst, beginning with byte from, and returns how many.
	Pack(dst []byte, from int64) int
}

// PutFrom is Put with n bytes of src in place of b, beginning with byte from. If src has fewer the error has no further effect.
func (w *Writer) PutFrom(a []byte, src Packer, from int64, n int) (bool, error) {
	at, err := w.reserve(len(a) + n)
	if err != nil || at == noRoom {
		return false, err
	}
	to := unsafe.Slice((*byte)(unsafe.Add(w.at(at), wordBytes)), len(a)+n)
	if got := src.Pack(to[copy(to, a):], from); got != n {
		w.cleared = w.tail + alignBytes // words behind the next one may have been overwritten
		w.updateFastEnd()
		return false, fmt.Errorf("shm: the data has %d bytes from byte %d on instead of %d", got, from, n)
	}
	w.publish(at, len(a)+n, n)
	return true, nil
}

// publish stores the word of a record of n bytes at at, the position that reserve has returned, and prepares the next one.
// payload is the length without the header.
func (w *Writer) publish(at uint64, n, payload int) {
	size := recordSize(n)
	end := at + size
	word := recordBit | uint64(n)
	if w.shortInRow++; payload >= longPayload {
		w.shortInRow = 0
	} else if end&w.mask >= w.shortArea && w.shortInRow >= wrapAfterShort {
		end, word = w.tryWrap(end, size, word)
	}
	StoreRelease64((*uint64)(w.at(at)), word)
	if at != w.tail {
		StoreRelease64((*uint64)(w.at(w.tail)), skipBit)
	}
	w.tail = end
	if payload < longPayload {
		w.prepareNext(size)
	} else {
		w.long++
		w.longBytes += size
		w.longRecords++
		w.updateFastEnd()
	}
}

// prepareNext prepares the ring for a record like the last one, which was short and took size bytes. It is called after the last
// record has been published, when the reader does not wait for it. It loads the reader's position if needed and clears words,
// also at the start of the space if the next record will wrap. So this core owns the lines when the next record is written.
func (w *Writer) prepareNext(size uint64) {
	end := w.tail + size
	if next := end + alignBytes; next > w.cleared {
		to := max(next, w.tail+clearAheadBytes)
		if to > w.limit {
			w.loadHead()
		}
		w.clearWords(w.tail, to)
	}
	if end >= w.tail&^w.mask+w.shortArea && w.shortInRow+1 >= wrapAfterShort {
		start := w.nextStart(w.tail)
		if start+size+alignBytes > w.limit || !w.isFollowed(end, size) {
			w.loadHead()
		}
		w.zeroWords(start, start+max(size+alignBytes, clearAheadBytes))
	}
	w.updateFastEnd()
}

// updateFastEnd sets fastEnd: as far as words are clear, within the short-record area.
func (w *Writer) updateFastEnd() {
	w.fastEnd = min(w.cleared-alignBytes, w.tail&^w.mask+w.shortArea-1)
}

// NeedsPrefetch reports whether Prefetch has work to do.
func (w *Writer) NeedsPrefetch() bool { return w.longBytes != 0 }

// Prefetch clears words for as many bytes as the long records took that were put since the last call, but at most maxPrefetch.
// Every line of the space has a word, so this fetches the lines back from the reader's cache. Call it when there is nothing else
// to do: writing the next long record takes half the time then.
func (w *Writer) Prefetch() {
	next, records := w.tail+min(w.longBytes, maxPrefetch)+alignBytes, w.longRecords
	payload := w.longBytes/uint64(max(records, 1)) - alignBytes // of one record, within a line
	w.longBytes, w.longRecords = 0, 0
	// Longer copies go past the caches, or are timed to decide that.
	if payload > nearBytes && (w.copier.past || w.copier.willSample(records)) {
		return
	}
	if next > w.limit {
		w.loadHead()
	}
	w.clearWords(w.tail, next)
	w.updateFastEnd()
}

// loadHead loads the reader's position and updates limit. Its partner is the release store in Reader.Release, so the reader has
// finished with everything before that position. loadHead ignores a position that no correct reader publishes.
func (w *Writer) loadHead() {
	if head := atomic.LoadUint64(w.head); head <= w.tail && head+w.mask >= w.limit && head%alignBytes == 0 {
		w.limit = head + w.mask + 1
	}
}

// nextStart returns the next position after pos that is the start of the space.
func (w *Writer) nextStart(pos uint64) uint64 { return (pos | w.mask) + 1 }

// tryWrap makes the next record begin at the start of the space, if the reader is known to have released enough there, and to be
// close behind: until it has passed the start as well, the room for more records ends where it is, so a writer that wraps far
// ahead of it would soon have none. The record before has this size and word, and ends at end, behind the short-record area.
// tryWrap returns the position of the next record and the word to publish.
func (w *Writer) tryWrap(end, size, word uint64) (uint64, uint64) {
	start := w.nextStart(end)
	if start+size+alignBytes > w.limit || !w.isFollowed(end, size) {
		return end, word
	}
	w.cleared = w.zeroWords(start, start+alignBytes)
	return start, word | wrapBit
}

// isFollowed reports whether the reader is known to be close behind end, where a record of this size ends.
func (w *Writer) isFollowed(end, size uint64) bool {
	return end+w.mask+1 <= w.limit+max(w.shortArea/2, releaseBatch+3*size)
}

// copyPair copies a, then b, to p. It copies a header of 16 bytes and a payload of 0 or 8 bytes without a call.
func copyPair(p unsafe.Pointer, a, b []byte) {
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

// Stores returns the kind of stores that UseStores has set.
func (w *Writer) Stores() Stores { return w.copier.stores }

// UseStores sets the kind of stores by which payloads are copied.
func (w *Writer) UseStores(s Stores) { w.copier.Use(s) }

// noRoom is returned in place of a position when there is no room.
const noRoom = ^uint64(0)

// reserve finds room for a record of n bytes off the fast path, clears the word behind it, and returns its position. It loads the
// reader's position as loadHead does, but a position that no correct reader publishes is an error here.
func (w *Writer) reserve(n int) (uint64, error) {
	if n > w.maxLen {
		return noRoom, fmt.Errorf("shm: message of %d bytes is too long for the ring: the limit is %d", n, w.maxLen)
	}
	size := recordSize(n)
	at := w.tail
	if at&w.mask+size+alignBytes > w.capacity { // keep room behind it for the word that says to skip
		at = (at | w.mask) + 1
	}
	end := at + size
	if end+alignBytes > w.limit {
		head := atomic.LoadUint64(w.head)
		if head > w.tail || head+w.mask+1 < w.limit || head%alignBytes != 0 {
			return noRoom, fmt.Errorf("%w: reader at %d, writer at %d", ErrCorrupt, head, w.tail)
		}
		if w.limit = head + w.mask + 1; end+alignBytes > w.limit {
			return noRoom, nil
		}
	}
	w.clearWords(end, end+alignBytes)
	return at, nil
}

// clearWords zeroes the words between two positions, but not beyond the capacity, and updates cleared.
func (w *Writer) clearWords(from, to uint64) {
	w.cleared = w.zeroWords(max(from, w.cleared), min(to, from&^w.mask+w.capacity))
}

// zeroWords zeroes words as far as the reader has released them. It returns the position behind the last zeroed word, or from if
// there is none.
func (w *Writer) zeroWords(from, to uint64) uint64 {
	for to = min(to, w.limit); from < to; from += alignBytes {
		*(*uint64)(w.at(from)) = 0
	}
	return from
}

// Ready reports whether there is a record to read. It loads the word with acquire semantics, as NextSame and Next do. The partner
// is the release store in Put and putSlow.
func (r *Reader) Ready() bool {
	return atomic.LoadUint64((*uint64)(unsafe.Add(r.base, r.pos&r.mask))) != 0
}

// NextSame returns the next record if it has the same length as the last one, or nil. It is Next without a call, and the address
// of the following record depends only on the length of the last one. So the processor can load the lines of several records at
// the same time. If the address depended on the word just loaded, it would have to wait for each line.
func (r *Reader) NextSame() []byte {
	at := r.pos & r.mask
	if atomic.LoadUint64((*uint64)(unsafe.Add(r.base, at))) != r.lastWord || at > r.lastFit {
		return nil
	}
	r.pos += r.lastSize
	return unsafe.Slice((*byte)(unsafe.Add(r.base, at+wordBytes)), r.lastLen)
}

// Prefetch is called when nothing was found and a record like the last one is expected at any moment. For records of two or three
// lines it loads the other lines, so that they arrive together with the first one as soon as they are written, and not after it.
// For longer records the writer would lose more than the reader gains, because the writer has to fetch each line back before it
// writes. Polling the first line all the time has the same cost for the writer, so the reader pauses where polling is all there
// is to do.
func (r *Reader) Prefetch() {
	at := r.pos & r.mask
	if r.lastSize == alignBytes || r.lastSize > 3*alignBytes || at%pageBytes+r.lastSize > pageBytes {
		Pause() // the last case: the next page may have no memory yet
		return
	}
	// The values do not matter. The loads are atomic so that the compiler keeps them, and because the writer stores meanwhile.
	atomic.LoadUint64((*uint64)(unsafe.Add(r.base, at+alignBytes)))
	atomic.LoadUint64((*uint64)(unsafe.Add(r.base, at+r.lastSize-alignBytes)))
}

// Next returns the next record, or nil if there is none. The bytes are in the ring and valid until Release. A misbehaving writer
// may change them at any time: copy what is checked before checking it.
func (r *Reader) Next() ([]byte, error) {
	at := r.pos & r.mask
	word := atomic.LoadUint64((*uint64)(unsafe.Add(r.base, at)))
	n := word ^ recordBit
	if n > r.maxLen {
		return r.nextSlow(word)
	}
	size := recordSize(int(n))
	if at+size > r.mask+1 {
		return nil, r.corrupt(word)
	}
	r.lastWord, r.lastLen, r.lastSize, r.lastFit = word, int(n), size, r.mask+1-size
	r.pos += size
	return unsafe.Slice((*byte)(unsafe.Add(r.base, at+wordBytes)), n), nil
}

// nextSlow is Next for any word other than that of a plain record: no record, a skip, a record with wrapBit, or garbage.
func (r *Reader) nextSlow(word uint64) ([]byte, error) {
	if word == 0 {
		return nil, nil
	}
	if word == skipBit {
		r.wrap()
		word = atomic.LoadUint64((*uint64)(r.base))
	}
	at := r.pos & r.mask
	n := word&^wrapBit ^ recordBit
	size := recordSize(int(n))
	if n > r.maxLen || at+size > r.mask+1 {
		return nil, r.corrupt(word)
	}
	if r.pos += size; word&wrapBit != 0 {
		r.wrap()
	}
	return unsafe.Slice((*byte)(unsafe.Add(r.base, at+wordBytes)), n), nil
}

// wrap advances the position to the next start of the space, unless it is at one.
func (r *Reader) wrap() { r.pos = (r.pos + r.mask) &^ r.mask }

// corrupt returns the error for a word that no correct writer writes.
func (r *Reader) corrupt(word uint64) error {
	return fmt.Errorf("%w: word %#x at %d", ErrCorrupt, word, r.pos)
}

// Offset returns where in the space the next record is expected, in bytes.
func (r *Reader) Offset() int { return int(r.pos & r.mask) }

// Release returns the room of all records read so far to the writer. It publishes the position only after more than batchBytes,
// so that the line with the position rarely moves between the caches, and reports whether it published. The partner of its
// release store is the load in loadHead and reserve. Release before waiting for a record: the writer may need the room of the
// records that are still held.
func (r *Reader) Release() bool {
	if r.pos-r.released <= r.batchBytes {
		return false
	}
	r.released = r.pos
	StoreRelease64(r.head, r.pos)
	return true
}

// Words returns words of the page that a ring begins with: those of 62 cache lines. The ring does not use them; both sides may.
func Words(mem []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(mem[wordsStart:spaceStart]))), (spaceStart-wordsStart)/8)
}
