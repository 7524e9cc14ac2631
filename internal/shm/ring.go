package shm

import (
	"errors"
	"fmt"
)

// ErrCorrupt says that the other side of a ring wrote something that no correct side writes.
var ErrCorrupt = errors.New("shm: corrupt ring")

// The memory of a ring:
//
//	0        head: the position up to which the reader has released, written by the reader only
//	128      words for other uses, see Words; processors may fetch the line of the head and the next one together
//	4096     the space: records, in a power of two of bytes
//
// A record begins at a cache line with one 8-byte word. It is contiguous:
//
//	word     0: not written yet      recordBit | length: a record      skipBit: continue at the start of the space
//	bytes    length of them, then padding to the next cache line
//
// Positions count bytes since the ring was made and never wrap. A position modulo the size of the space is an offset in the
// space.
//
// The reader polls the word. It is next to the bytes, so a small message crosses between the caches in one line, and a longer one
// in consecutive lines, which processors prefetch. The writer stores the word last, with a release store (StoreRelease64 in Put
// and putSlow). Its partner is the atomic load of the word in NextSame, Next and Ready. The head is the other way around: Release
// stores it with a release store, and loadHead and reserve load it.
//
// Invariant: when the writer stores the word of a record, the word with which the next record will begin is zero. So the reader
// never takes bytes of an earlier pass through the space for a word. The writer clears the words of the lines ahead of it, a few
// at a time, after it has published a record, when the reader does not wait for it.
//
// Memory that both cores have used a moment ago is written several times faster than memory that has to be fetched back from the
// other core's second-level cache. So as long as the reader keeps up, a writer of short records stays within the first part of
// the space, the short-record area. A record that ends behind that area may carry wrapBit, which says that the next record is at
// the start of the space. Long records use the whole space: both cores find lines fastest when both second-level caches have
// evicted them before they are used again. So a space of twice the size of such a cache carries long records several times faster
// than a small one. A writer may be confined to the beginning of its space (SetCapacity), so that the rest needs no memory. The
// reader does not have to know that.
const (
	alignBytes      = 64 // records begin at a cache line
	wordBytes       = 8  // the word in front of a record
	pageBytes       = 4096
	wordsStart      = 2 * alignBytes
	spaceStart      = pageBytes // where the space begins in the memory of a ring
	recordBit       = 1 << 32
	skipBit         = 1 << 33
	wrapBit         = 1 << 34        // with recordBit: the next record is at the start of the space
	clearAheadBytes = 8 * alignBytes // words are cleared so far ahead of a short record
	shortAreaBytes  = 4 << 10        // the short-record area, at most
	wrapAfterShort  = 4              // the writer wraps early after so many short records in putSlow without a long one between
	releaseBatch    = 1 << 10        // bytes that the reader may hold back before it publishes its position, at most
	longPayload     = 2 << 10        // bytes: a payload of this length and longer is long, and its record uses the whole space
	maxPrefetch     = 64 << 10       // bytes that one Prefetch fetches, at most
)

// RingBytes returns how much memory a ring takes. space is the size of its space, a power of two of at least 4096.
func RingBytes(space int) int { return spaceStart + space }

// MaxRecord returns the length of the largest record for a space, or for the part of a space that a writer is confined to. A
// record that has to skip to the start takes less than three quarters of it, and the reader holds back less than one quarter. So
// there is always room for the record in the end.
func MaxRecord(space int) int { return space/8*3 - 2*alignBytes }

// recordSize returns how many bytes a record of n bytes takes in the space.
func recordSize(n int) uint64 { return uint64(n+wordBytes+alignBytes-1) &^ (alignBytes - 1) }

// spaceSize returns the size of the space in mem.
func spaceSize(mem []byte) (uint64, error) {
	n := uint64(len(mem) - spaceStart)
	if len(mem) < 2*spaceStart || n&(n-1) != 0 {
		return 0, fmt.Errorf("shm: a ring needs 4096 bytes and a power of two of at least 4096, not %d bytes", len(mem))
	}
	return n, nil
}
