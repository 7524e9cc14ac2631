package perf

import (
	"errors"
	"fmt"
)

// Sizes of a page.
const (
	// Version is the version of the layout.
	Version = 6
	// PeerRows is the number of peers with a row of their own.
	PeerRows = 512
	// Histograms is the number of pairs of operation and size class that can have a histogram.
	Histograms = 96
	// Lanes is the number of concurrent operations, of different goroutines, that a page can show.
	Lanes = 8
	// PageBytes is the length of a page: a multiple of 64 KiB, so that pages can be consecutive in a file for
	// every page size of the kernel.
	PageBytes = 576 << 10
)

// magic identifies a page, and the byte order of its words.
const magic = 0x4942_5255_4e50_4731

// State is the state of a rank.
type State uint8

// The states of a rank. A rank that died without finalizing stays Running; only its parent process can know.
const (
	Running State = 1 + iota
	Finalized
)

// String returns "running" or "finalized".
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
	// ErrEmpty is returned for a page that was never written: the rank has not initialised, or its program does not use pages.
	ErrEmpty = errors.New("perf: the page has not been written")
	// ErrCorrupt is returned for a page with invalid content.
	ErrCorrupt = errors.New("perf: corrupt page")
	// ErrShort is returned for memory that is too short for a page, or not aligned to 8 bytes.
	ErrShort = errors.New("perf: memory does not hold a page")
)

// VersionError is returned for a page with another layout: the program was built with another version than its reader.
type VersionError struct{ Got, Want uint64 }

// Error returns both versions and the remedy.
func (e *VersionError) Error() string {
	return fmt.Sprintf("perf: the program writes pages of version %d, this reads version %d: build both from one version",
		e.Got, e.Want)
}

// layout is a page: words in the byte order of the machine, all of them written by one process.
type layout struct {
	magic   uint64 // stored last, after the rest of the head
	version uint64
	bytes   uint64 // of layout
	state   uint64
	rank    uint64
	size    uint64
	pid     uint64
	mode    uint64
	began   uint64 // Unix time in nanoseconds; so is ended
	ended   uint64
	clock   uint64 // ticks per second of the counter that measures times

	waiting             uint64 // nanoseconds
	unexpected          uint64
	unexpectedHigh      uint64
	unexpectedBytes     uint64
	unexpectedBytesHigh uint64
	posted              uint64
	postedHigh          uint64
	matches             uint64 // number of receives for which the length of the queues was sampled
	matchLength         uint64 // sum of the sampled lengths
	retransmissions     uint64
	registrations       uint64
	pinned              uint64
	pinnedHigh          uint64
	done                uint64
	total               uint64
	histograms          uint64 // in use
	withoutHistogram    uint64 // number of timings that found no free histogram
	joined              uint64 // Unix time in nanoseconds
	waitingAtJoin       uint64 // value of waiting at joined
	reconnections       uint64
	changes             uint64 // how often received bytes had been changed
	lostPeer            uint64 // 1: an operation has failed because another process is gone
	sentOther           uint64 // messages that are not eager, and transfers; see Recorder.Begun
	arrivedOther        uint64 // the same that have arrived or ended; see Recorder.Ended
	paused              uint64 // 1: eager messages were not counted for some time

	current   [Lanes]current
	cells     [maxOps][Classes]cell
	long      longVolumes
	peerNames [PeerRows]uint64
	peerRows  [PeerRows + 8]peerRow // the rows of peers, then one for each transport
	latency   [Histograms]latency

	places [Lanes]place // of the operations in current
	called place        // the call that the program made last

	names nameTable // of communicators
}

// cell has the counters of an operation for one size class.
type cell struct {
	calls     uint64
	bytes     uint64
	time      uint64 // nanoseconds, estimated from the timed calls
	histogram uint64 // number of its histogram, from 1; 0: none
}

// peerRow has the counters of a peer: eager messages, and those of other protocols.
type peerRow struct{ out, outOther, in, inOther volume }

type volume struct{ messages, bytes uint64 }

type latency struct {
	max     uint64
	_       [7]uint64
	buckets [buckets]uint64
}

// current is an operation in progress. Every word contains the lower bits of the sequence number; the head is stored last.
type current struct {
	head  uint64 // sequence number << 16 | operation << 8 | number of a name << 1 | 1 while in progress
	peer  uint64 // sequence number << 32 | peer
	tag   uint64 // sequence number << 32 | tag
	bytes uint64 // sequence number << 48 | bytes
}
