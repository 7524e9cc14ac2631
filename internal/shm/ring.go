package shm

import (
	"errors"
	"fmt"
)

// ErrCorrupt says that the other side of a ring wrote what no correct side writes.
var ErrCorrupt = errors.New("shm: corrupt ring")

// The memory of a ring:
//
//	0        position up to which the reader has released, written by the reader only
//	4096     records, in a space of a power of two bytes
//
// A record begins at a multiple of the unit with one 8-byte word and is contiguous:
//
//	word     0: not written yet      recordBit | length: a record      skipBit: go on at the start of the space
//	bytes    length of them, then padding to the next multiple of the unit
//
// The word is what the reader polls. It is next to the bytes, so a small message crosses between the caches in one
// line and a longer one in lines that follow each other, which is what processors fetch ahead. The writer stores
// the word last. At that time the word behind the record is zero; so what an earlier lap left behind is never taken
// for a word. To have zeros there the writer clears the words of the units ahead of it, a few at a time and after
// it has published, when nobody waits for it. Positions count bytes since the beginning and never wrap.
//
// Memory that both sides have used a moment ago is written several times faster than memory that has to be fetched
// back from the other's second-level cache. So as long as the reader keeps up a writer of short records stays within the first
// part of the space: a record that ends behind it may carry turnBit, which means that the next one is at the start. Long records
// go all the way around: lines that are used again only when both second-level caches have put them out are where both cores find
// them fast. So a space of twice the size of such a cache carries long records several times faster than a small one.
// A writer may be confined to the beginning of its space, which needs no memory behind that; the reader need not know.
const (
	unitBytes  = 64
	wordBytes  = 8
	pageBytes  = 4096
	spaceStart = pageBytes
	recordBit  = 1 << 32
	skipBit    = 1 << 33
	turnBit    = 1 << 34
	aheadBytes = 8 * unitBytes // how far ahead of a small record words are cleared
	partBytes  = 4 << 10       // the first part of the space
	calm       = 4             // so many short records in a row that do not simply follow, and there is a turn
	keptBytes  = 1 << 10       // room that the reader may keep back
	longBytes  = 2 << 10       // a payload that goes all the way around
	fetchBytes = 64 << 10      // lines to be fetched at once, at most
)

// RingBytes is how much memory a ring takes whose space is the given power of two, at least 4096.
func RingBytes(space int) int { return spaceStart + space }

// MaxRecord is the length of the largest record for a space, or for what a writer is confined to. When one must skip to the
// start it takes less than three quarters, and the reader keeps back less than one; so there is always room in the end.
func MaxRecord(space int) int { return space/8*3 - 2*unitBytes }

// recordSize is what a record of n bytes takes in the space.
func recordSize(n int) uint64 { return uint64(n+wordBytes+unitBytes-1) &^ (unitBytes - 1) }

// spaceOf tells the size of the space in mem.
func spaceOf(mem []byte) (uint64, error) {
	n := uint64(len(mem) - spaceStart)
	if len(mem) < 2*spaceStart || n&(n-1) != 0 {
		return 0, fmt.Errorf("shm: a ring cannot be laid over %d bytes", len(mem))
	}
	return n, nil
}
