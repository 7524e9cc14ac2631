package messages

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// Kind is the kind of a message.
type Kind uint8

// The kinds of messages. All but Data are control messages, which have no bytes of the caller.
const (
	Data   Kind = iota + 1 // a message of the caller
	RTU                    // ready to use: the connection is established
	Credit                 // a credit update
	DREQ                   // disconnect request: this is the last message
)

// HeaderBytes is the length of the header, with which a message begins. Its integers are in
// little-endian order:
//
//	0   seq           4 bytes: number of this data message, or of the next one in a control message
//	4   grant         4 bytes: the receiver may send data messages with lower numbers
//	8   grantSeen     4 bytes: the grant that the sender of this message knows
//	12  kind          1 byte
//	13  needsCredits  1 byte: 1 if the sender has now used all its credits
//	14  zero          2 bytes
const HeaderBytes = 16

// Header is the beginning of a message. Numbers wrap around.
type Header struct {
	Seq, Grant, GrantSeen uint32
	Kind                  Kind
	NeedsCredits          bool
}

// Put writes the header to the first HeaderBytes of b.
func (h *Header) Put(b []byte) {
	high := uint64(h.GrantSeen) | uint64(h.Kind)<<32
	if h.NeedsCredits {
		high |= 1 << 40
	}
	binary.LittleEndian.PutUint64(b[:8], uint64(h.Seq)|uint64(h.Grant)<<32)
	binary.LittleEndian.PutUint64(b[8:HeaderBytes], high)
}

// ParseHeader parses the header of a message. Only data messages may be longer than the header.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderBytes {
		return Header{}, errBadHeader(b)
	}
	low, high := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	h := Header{
		Seq: uint32(low), Grant: uint32(low >> 32), GrantSeen: uint32(high), Kind: Kind(high >> 32), NeedsCredits: high>>40 == 1,
	}
	if h.Kind-Data > DREQ-Data || high>>41 != 0 || h.Kind != Data && len(b) != HeaderBytes {
		return Header{}, errBadHeader(b)
	}
	return h, nil
}

func errBadHeader(b []byte) error {
	return fmt.Errorf("%w: message of %d bytes that begins with %x", fabric.ErrCorrupt, len(b), b[:min(len(b), HeaderBytes)])
}
