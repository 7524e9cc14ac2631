package rdma

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// kind is the kind of a message.
type kind uint8

const (
	kindData   kind = iota + 1 // a message of the caller
	kindRTU                    // ready to use: the connection is established
	kindCredit                 // a credit update
	kindDREQ                   // disconnect request: this is the last message
)

// A message begins with a header. Its integers are in little-endian order:
//
//	0   seq           4 bytes: number of this data message, or of the next one in a control message
//	4   grant         4 bytes: the receiver may send data messages with lower numbers
//	8   grantSeen     4 bytes: the grant that the sender of this message knows
//	12  kind          1 byte
//	13  needsCredits  1 byte: 1 if the sender has now used all its credits
//	14  zero          2 bytes
const headerBytes = 16

// header is the beginning of a message. Numbers wrap around.
type header struct {
	seq, grant, grantSeen uint32
	kind                  kind
	needsCredits          bool
}

func (h *header) put(b []byte) {
	high := uint64(h.grantSeen) | uint64(h.kind)<<32
	if h.needsCredits {
		high |= 1 << 40
	}
	binary.LittleEndian.PutUint64(b[:8], uint64(h.seq)|uint64(h.grant)<<32)
	binary.LittleEndian.PutUint64(b[8:headerBytes], high)
}

// parseHeader parses the header of a message. Only data messages may be longer than the header.
func parseHeader(b []byte) (header, error) {
	if len(b) < headerBytes {
		return header{}, errBadHeader(b)
	}
	low, high := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	h := header{
		seq: uint32(low), grant: uint32(low >> 32), grantSeen: uint32(high), kind: kind(high >> 32), needsCredits: high>>40 == 1,
	}
	if h.kind-kindData > kindDREQ-kindData || high>>41 != 0 || h.kind != kindData && len(b) != headerBytes {
		return header{}, errBadHeader(b)
	}
	return h, nil
}

func errBadHeader(b []byte) error {
	return fmt.Errorf("%w: message of %d bytes that begins with %x", fabric.ErrCorrupt, len(b), b[:min(len(b), headerBytes)])
}
