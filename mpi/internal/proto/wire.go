package proto

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// kind is the type of a message of the wire protocol. Every message begins with an envelope:
//
//	0   kind       1 byte
//	1   epoch      3 bytes: the epoch in which the message is counted, see rtrFlow; 0: not counted
//	4   context    4 bytes
//	8   source     4 bytes: rank of the sender in the context's communicator
//	12  tag        4 bytes
//
// Words of 8 bytes and a payload follow, depending on the kind. Messages that belong to a request rather than to a context
// have zeros as context, source and tag. All numbers are little endian.
type kind uint8

const (
	kindEager        kind = iota + 1 // payload
	kindEagerSync                    // id of the sender's request; payload
	kindFirstFrag                    // length of the message with marks; first fragment of the payload
	kindRTS                          // length with marks, address, key, id of the sender's request, index of a word or noWord
	kindAssist                       // sender's id, receiver's id, address, key, bytes wanted
	kindATP                          // receiver's id, number of pieces written (acknowledgement of a put)
	kindFIN                          // sender's id
	kindDataRequest                  // sender's id, receiver's id, bytes wanted
	kindFrag                         // next fragment of the message whose first fragment the sender has sent last
	kindData                         // receiver's id, offset; payload
	kindPause                        // nothing
	kindResume                       // nothing
	kindRTR                          // receiver's id, address, key, length; messages received << 32 | receives ahead
	kindPut                          // receiver's id, address, key, id of the sender's request, index of a shared word or noWord
	kindRTRCancel                    // receiver's id
	kindRTRCancelAck                 // receiver's id
	kindClockPing                    // sender's time; two words that a ClockHandler interprets
	kindClockPong                    // the time in the ping, receiver's time; a word that a ClockHandler interprets
	kindClockAdjust                  // words that a ClockHandler interprets
	kindWatch                        // nothing: the receiver reports with LEFT when it leaves the context, see departures
	kindLeft                         // 1 if all processes free the communicator, else 0
	kindRefuse                       // sender's id, of an RTS or a synchronous message; 1 or 0 as in LEFT
	kindClockState                   // a word that a ClockHandler interprets
	kindNote                         // operation; type of the elements, space, source position
	kindWithdraw                     // sender's id, of an RTS or a synchronous message with this envelope
	kindWithdrawn                    // sender's id
	kindFlush                        // a number: the receiver answers with FLUSHED, after all that it has sent, see flushes
	kindFlushed                      // the number in FLUSH
	kindElapsed                      // length with marks, protocol, nanoseconds, bytes; sender's id or nanoseconds: see elapsed
	kindCount
)

// isEager reports whether a message of the kind has the whole payload of a send.
func (k kind) isEager() bool { return k == kindEager || k == kindEagerSync }

// isClock reports whether a message of the kind compares clocks.
func (k kind) isClock() bool {
	return k == kindClockPing || k == kindClockPong || k == kindClockAdjust || k == kindClockState
}

// noKind differs from the kind of every message.
const noKind = 1 << 32

// wordCount is the number of words that follow the envelope of each kind.
var wordCount = [kindCount]int{kindEagerSync: 1, kindFirstFrag: 1, kindRTS: 5, kindAssist: 5, kindATP: 2, kindFIN: 1,
	kindDataRequest: 3, kindData: 2,
	kindRTR: 5, kindPut: 5, kindRTRCancel: 1, kindRTRCancelAck: 1,
	kindClockPing: 3, kindClockPong: 3, kindClockAdjust: 5, kindLeft: 1, kindRefuse: 2, kindClockState: 1, kindNote: 1,
	kindWithdraw: 1, kindWithdrawn: 1, kindFlush: 1, kindFlushed: 1, kindElapsed: 5}

const (
	envelopeBytes = 16
	maxHeader     = envelopeBytes + 5*8
	noWord        = ^uint64(0)
)

// envelope is the decoded beginning of a message. It has four fields for the same reason as Route.
type envelope struct {
	kind    kind
	context uint32
	Match
	epoch uint32
}

// hasPayload reports whether messages of a kind may have a payload.
func (k kind) hasPayload() bool {
	return k <= kindFirstFrag || k == kindFrag || k == kindData || k == kindNote
}

// hasEpoch reports whether messages of a kind may have an epoch.
func (k kind) hasEpoch() bool { return k <= kindRTS || k == kindRTR || k == kindPut }

// encode returns the two words that represent the envelope on the wire.
func (v envelope) encode() (first, second uint64) {
	return uint64(v.kind) | uint64(v.epoch)<<8 | uint64(v.context)<<32, uint64(uint32(v.Rank)) | uint64(uint32(v.Tag))<<32
}

// put writes the envelope into b. These two stores are the whole cost of the header of an eager message.
func (v envelope) put(b *[maxHeader]byte) {
	first, second := v.encode()
	binary.LittleEndian.PutUint64(b[0:8], first)
	binary.LittleEndian.PutUint64(b[8:16], second)
}

// parse splits a message into envelope, words and payload. It fails for every message that no engine sends.
func parse(b []byte) (v envelope, w [5]uint64, payload []byte, err error) {
	if len(b) < envelopeBytes {
		return v, w, nil, fmt.Errorf("%w: a message of %d bytes is too short for an envelope", fabric.ErrCorrupt, len(b))
	}
	first := binary.LittleEndian.Uint64(b)
	second := binary.LittleEndian.Uint64(b[8:])
	v = envelope{kind(first), uint32(first >> 32), Match{int32(second), int32(second >> 32)}, uint32(first) >> 8}
	if v.kind == 0 || v.kind >= kindCount || v.epoch != 0 && !v.kind.hasEpoch() {
		return v, w, nil, fmt.Errorf("%w: message of kind %#x", fabric.ErrCorrupt, uint32(first))
	}
	b = b[envelopeBytes:]
	n := wordCount[v.kind]
	if len(b) < 8*n || len(b) > 8*n && !v.kind.hasPayload() {
		return v, w, nil, fmt.Errorf("%w: message of kind %d with %d bytes after its envelope", fabric.ErrCorrupt, v.kind, len(b))
	}
	for i := range n {
		w[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return v, w, b[8*n:], nil
}

// header encodes an envelope followed by words.
func header(v envelope, w ...uint64) (b [maxHeader]byte, n int) {
	v.put(&b)
	for i, x := range w {
		binary.LittleEndian.PutUint64(b[envelopeBytes+8*i:], x)
	}
	return b, envelopeBytes + 8*len(w)
}
