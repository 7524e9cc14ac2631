package perf

import (
	"errors"
	"fmt"
)

// Sizes of a page.
const (
	// Version is that of the layout.
	Version = 1
	// PeerRows is how many peers have a row of their own.
	PeerRows = 512
	// Histograms is how many pairs of operation and size class can be timed.
	Histograms = 96
	// Lanes is how many operations that are under way at once, by goroutines, are shown.
	Lanes = 8
	// PageBytes is the length of a page: a multiple of 64 KiB, so that pages lie side by side in a file whatever the
	// kernel's page size.
	PageBytes = 576 << 10
)

// magic tells a page, and that its words have our byte order.
const magic = 0x4942_5255_4e50_4731

// State is how far the rank is.
type State uint8

// The states of a rank. One that died without finalizing stays Running: its parent knows.
const (
	Running State = 1 + iota
	Finalized
)

// String is "running" or "finalized".
func (s State) String() string {
	switch s {
	case Running:
		return "running"
	case Finalized:
		return "finalized"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Errors of Open and Snapshot.
var (
	// ErrEmpty says that nobody has written the page: the rank has not initialised, or is a program that knows no pages.
	ErrEmpty = errors.New("perf: the page has not been written")
	// ErrCorrupt says that the page makes no sense.
	ErrCorrupt = errors.New("perf: corrupt page")
	// ErrShort says that memory is too short for a page, or not aligned to 8 bytes.
	ErrShort = errors.New("perf: memory does not hold a page")
)

// VersionError says that a page has another layout: the program was built with another version than its reader.
type VersionError struct{ Got, Want uint64 }

// Error tells both versions and what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("perf: the program writes pages of version %d, this reads version %d: build both from one version",
		e.Got, e.Want)
}

// layout is a page: words in the byte order of the machine, each written by one writer.
type layout struct {
	magic   uint64 // last, when the rest of the head is there
	version uint64
	bytes   uint64 // of layout
	state   uint64
	rank    uint64
	size    uint64
	pid     uint64
	mode    uint64
	began   uint64 // Unix time in nanoseconds, as is the next
	ended   uint64
	clock   uint64 // ticks per second of the counter that took the times

	waiting         uint64 // nanoseconds
	unexpected      uint64
	unexpectedHigh  uint64
	unexpectedBytes uint64
	bytesHigh       uint64
	posted          uint64
	postedHigh      uint64
	matches         uint64 // matched messages of which the length of the queue was taken
	matchLength     uint64 // and the sum of these
	retransmissions uint64
	registrations   uint64
	pinned          uint64
	pinnedHigh      uint64
	done            uint64
	total           uint64
	histograms      uint64 // in use
	untold          uint64 // times that found no histogram
	joined          uint64 // Unix time in nanoseconds
	joining         uint64 // what waiting was then
	_               [2]uint64

	current [Lanes]current
	cells   [maxOps][Classes]cell
	others  [2][8][Protocols - 1]volume // direction, transport, protocol but eager
	names   [PeerRows]uint64
	rows    [PeerRows + 8]row // behind those of peers one for each transport
	latency [Histograms]latency
}

// cell is what is counted of an operation with sizes of a class.
type cell struct {
	calls uint64
	bytes uint64
	time  uint64 // nanoseconds, estimated from what was timed
	slot  uint64 // number of its histogram, from 1; 0: it has none
}

// row is what went to a peer and came from it: eagerly, and in other ways.
type row struct{ out, outOther, in, inOther volume }

type volume struct{ messages, bytes uint64 }

type latency struct {
	max     uint64
	_       [7]uint64
	buckets [buckets]uint64
}

// current is an operation under way. Every word carries the lower bits of the sequence number; the head is stored last.
type current struct {
	head  uint64 // sequence number << 16 | operation << 8 | 1 while under way
	peer  uint64 // sequence number << 32 | peer
	tag   uint64 // sequence number << 32 | tag
	bytes uint64 // sequence number << 48 | bytes
}
