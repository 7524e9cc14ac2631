package proto

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// Every message begins with an envelope:
//
//	0   kind       1 byte
//	1   epoch      3 bytes, of the count of such messages, see lane; 0: not counted
//	4   context    4 bytes
//	8   source     4 bytes, rank of the sender in the context's communicator
//	12  tag        4 bytes
//
// followed, by kind, with words of 8 bytes and a payload. Messages that belong to a request rather than to a context
// leave context, source and tag zero.
type kind uint8

const (
	kindEager   kind = iota + 1 // payload
	kindSync                    // id of the sender's request; payload
	kindLong                    // size; first part of the payload
	kindOffer                   // size, address, key, id of the sender's request, word or noWord
	kindHelp                    // sender's id, receiver's id, address, key, bytes wanted
	kindWrote                   // receiver's id, pieces written
	kindFin                     // sender's id
	kindSend                    // sender's id, receiver's id, bytes wanted
	kindMore                    // next part of the payload of the peer's last LONG
	kindData                    // receiver's id, offset; payload
	kindChoke                   // nothing
	kindUnchoke                 // nothing
	kindWant                    // receiver's id, address, key, size; messages seen, and in the lower half receives ahead
	kindPut                     // receiver's id, address, key, id of the sender's request, word or noWord
	kindUnwant                  // receiver's id
	kindForgot                  // receiver's id
	kindPing                    // sender's time
	kindPong                    // the time in the ping, receiver's time
	kindSteer                   // what a Timekeeper makes of it
	kinds
)

// noKind is not the kind of any message.
const noKind = 1 << 32

// words is how many words follow the envelope.
var words = [kinds]int{kindSync: 1, kindLong: 1, kindOffer: 5, kindHelp: 5, kindWrote: 2, kindFin: 1, kindSend: 3, kindData: 2,
	kindWant: 5, kindPut: 5, kindUnwant: 1, kindForgot: 1,
	kindPing: 1, kindPong: 2, kindSteer: 5}

const (
	envelopeBytes = 16
	maxHeader     = envelopeBytes + 5*8
	noWord        = ^uint64(0)
)

// envelope is the decoded beginning of a message, of four fields like Route.
type envelope struct {
	kind    kind
	context uint32
	Match
	epoch uint32
}

// counted tells whether messages of a kind may have an epoch.
func (k kind) counted() bool { return k <= kindOffer || k == kindWant || k == kindPut }

// words are the envelope as it is written.
func (v envelope) words() (first, second uint64) {
	return uint64(v.kind) | uint64(v.epoch)<<8 | uint64(v.context)<<32, uint64(uint32(v.Rank)) | uint64(uint32(v.Tag))<<32
}

// put writes the envelope into b, which has room for it. The two stores are what a message costs here.
func (v envelope) put(b *[maxHeader]byte) {
	first, second := v.words()
	binary.LittleEndian.PutUint64(b[0:8], first)
	binary.LittleEndian.PutUint64(b[8:16], second)
}

// parse splits a message into envelope, words and payload. It fails on whatever no engine sends.
func parse(b []byte) (v envelope, w [5]uint64, payload []byte, err error) {
	if len(b) < envelopeBytes {
		return v, w, nil, fmt.Errorf("%w: %d bytes where an envelope should be", fabric.ErrCorrupt, len(b))
	}
	first := binary.LittleEndian.Uint64(b)
	second := binary.LittleEndian.Uint64(b[8:])
	v = envelope{kind(first), uint32(first >> 32), Match{int32(second), int32(second >> 32)}, uint32(first) >> 8}
	if v.kind == 0 || v.kind >= kinds || v.epoch != 0 && !v.kind.counted() {
		return v, w, nil, fmt.Errorf("%w: message of kind %#x", fabric.ErrCorrupt, uint32(first))
	}
	b = b[envelopeBytes:]
	n := words[v.kind]
	if carries := v.kind <= kindLong || v.kind == kindMore || v.kind == kindData; len(b) < 8*n || len(b) > 8*n && !carries {
		return v, w, nil, fmt.Errorf("%w: message of kind %d with %d bytes after its envelope", fabric.ErrCorrupt, v.kind, len(b))
	}
	for i := range n {
		w[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return v, w, b[8*n:], nil
}

// header builds an envelope with words.
func header(v envelope, w ...uint64) (b [maxHeader]byte, n int) {
	v.put(&b)
	for i, x := range w {
		binary.LittleEndian.PutUint64(b[envelopeBytes+8*i:], x)
	}
	return b, envelopeBytes + 8*len(w)
}
