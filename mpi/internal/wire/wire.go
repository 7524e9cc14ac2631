package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// Kind is the type of a message of the wire protocol. Every message begins with an envelope:
//
//	0   kind       1 byte
//	1   epoch      3 bytes: the epoch in which the message is counted, see countEpoch of package proto; 0: not counted
//	4   context    4 bytes
//	8   source     4 bytes: rank of the sender in the context's communicator
//	12  tag        4 bytes
//
// Words of 8 bytes and a payload follow, depending on the kind. Messages that belong to a request
// rather than to a context have zeros as context, source and tag. All numbers are little endian.
type Kind uint8

// The kinds of messages, with the words that follow the envelope, and the payload. A new kind is
// appended before KindCount: the numbers are those on the wire, and the order of the first four
// counts as well. Kinds up to FirstFrag have a payload (hasPayload), and those up to RTS may have
// an epoch (HasEpoch). handlePause of package proto compares kinds with FirstFrag too.
const (
	Eager        Kind = iota + 1 // payload
	EagerSync                    // id of the sender's request; payload
	FirstFrag                    // length of the message with marks; first fragment of the payload
	RTS                          // length with marks, address, key, id of the sender's request, index of a word or NoWord
	Assist                       // sender's id, receiver's id, address, key, bytes wanted
	ATP                          // receiver's id, number of pieces written (acknowledgement of a put)
	FIN                          // sender's id
	DataRequest                  // sender's id, receiver's id, bytes wanted
	Frag                         // next fragment of the message whose first fragment the sender has sent last
	Data                         // receiver's id, offset; payload
	Pause                        // nothing
	Resume                       // nothing
	RTR                          // receiver's id, address, key, length; messages received << 32 | receives ahead
	Put                          // receiver's id, address, key, id of the sender's request, index of a shared word or NoWord
	RTRCancel                    // receiver's id
	RTRCancelAck                 // receiver's id
	ClockPing                    // sender's time; two words that a ClockHandler interprets
	ClockPong                    // the time in the ping, receiver's time; a word that a ClockHandler interprets
	ClockAdjust                  // words that a ClockHandler interprets
	Watch                        // nothing: the receiver reports with Left when it leaves the context
	Left                         // 1 if all processes free the communicator, else 0
	Refuse                       // sender's id, of an RTS or a synchronous message; 1 or 0 as in Left
	ClockState                   // a word that a ClockHandler interprets
	Note                         // operation; type of the elements, space, source position
	Withdraw                     // sender's id, of an RTS or a synchronous message with this envelope
	Withdrawn                    // sender's id
	Flush                        // a number: the receiver answers with Flushed, after all that it has sent
	Flushed                      // the number in Flush
	Elapsed                      // length with marks, protocol, nanoseconds, bytes; sender's id or nanoseconds

	// KindCount is greater than every kind. It stays the last constant.
	KindCount
)

// IsEager reports whether a message of the kind has the whole payload of a send.
func (k Kind) IsEager() bool { return k == Eager || k == EagerSync }

// IsClock reports whether a message of the kind compares clocks.
func (k Kind) IsClock() bool {
	return k == ClockPing || k == ClockPong || k == ClockAdjust || k == ClockState
}

// NoKind differs from the kind of every message.
const NoKind = 1 << 32

// Words returns the number of words that follow the envelope of a kind.
func (k Kind) Words() int { return wordCount[k] }

// wordCount is the number of words that follow the envelope of each kind.
var wordCount = [KindCount]int{EagerSync: 1, FirstFrag: 1, RTS: 5, Assist: 5, ATP: 2, FIN: 1,
	DataRequest: 3, Data: 2,
	RTR: 5, Put: 5, RTRCancel: 1, RTRCancelAck: 1,
	ClockPing: 3, ClockPong: 3, ClockAdjust: 5, Left: 1, Refuse: 2, ClockState: 1, Note: 1,
	Withdraw: 1, Withdrawn: 1, Flush: 1, Flushed: 1, Elapsed: 5}

const (
	// EnvelopeBytes is the length of an envelope in bytes. It is the whole header of an eager
	// message.
	EnvelopeBytes = 16
	// MaxHeader is the length of the longest header, an envelope and its words, in bytes.
	MaxHeader = EnvelopeBytes + 5*8
	// NoWord is in the place of an index or an address that does not exist.
	NoWord = ^uint64(0)
)

// Match is what the sender and the receiver of a message agree on besides the context.
type Match struct {
	Rank int32 // of the sender, in the context's communicator; a receive may have a wildcard
	Tag  int32 // a receive may have a wildcard
}

// Envelope is the decoded beginning of a message. It has four fields, as many as the compiler keeps
// in registers: a struct of five is copied through memory, in overlapping pieces that wait for each
// other.
type Envelope struct {
	Kind    Kind
	Context uint32
	Match
	Epoch uint32
}

// hasPayload reports whether messages of a kind may have a payload.
func (k Kind) hasPayload() bool {
	return k <= FirstFrag || k == Frag || k == Data || k == Note
}

// HasEpoch reports whether messages of a kind may have an epoch: the first messages of sends, up to
// RTS, and those of the protocol with RTR.
func (k Kind) HasEpoch() bool { return k <= RTS || k == RTR || k == Put }

// Encode returns the two words that represent the envelope on the wire.
func (v Envelope) Encode() (first, second uint64) {
	return uint64(v.Kind) | uint64(v.Epoch)<<8 | uint64(v.Context)<<32, uint64(uint32(v.Rank)) | uint64(uint32(v.Tag))<<32
}

// Put writes the envelope into b. These two stores are the whole cost of the header of an eager
// message.
func (v Envelope) Put(b *[MaxHeader]byte) {
	first, second := v.Encode()
	binary.LittleEndian.PutUint64(b[0:8], first)
	binary.LittleEndian.PutUint64(b[8:16], second)
}

// Parse splits a message into envelope, words and payload. It fails for every message that no
// engine sends.
func Parse(b []byte) (v Envelope, w [5]uint64, payload []byte, err error) {
	if len(b) < EnvelopeBytes {
		return v, w, nil, fmt.Errorf("%w: a message of %d bytes is too short for an envelope", fabric.ErrCorrupt, len(b))
	}
	first := binary.LittleEndian.Uint64(b)
	second := binary.LittleEndian.Uint64(b[8:])
	v = Envelope{Kind(first), uint32(first >> 32), Match{int32(second), int32(second >> 32)}, uint32(first) >> 8}
	if v.Kind == 0 || v.Kind >= KindCount || v.Epoch != 0 && !v.Kind.HasEpoch() {
		return v, w, nil, fmt.Errorf("%w: message of kind %#x", fabric.ErrCorrupt, uint32(first))
	}
	b = b[EnvelopeBytes:]
	n := v.Kind.Words()
	if len(b) < 8*n || len(b) > 8*n && !v.Kind.hasPayload() {
		return v, w, nil, fmt.Errorf("%w: message of kind %d with %d bytes after its envelope", fabric.ErrCorrupt, v.Kind, len(b))
	}
	for i := range n {
		w[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return v, w, b[8*n:], nil
}

// Header encodes an envelope followed by words.
func Header(v Envelope, w ...uint64) (b [MaxHeader]byte, n int) {
	v.Put(&b)
	for i, x := range w {
		binary.LittleEndian.PutUint64(b[EnvelopeBytes+8*i:], x)
	}
	return b, EnvelopeBytes + 8*len(w)
}
