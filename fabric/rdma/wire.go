package rdma

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// kind is the kind of a message.
type kind uint8

const (
	kindData   kind = iota + 1 // a message of the caller's
	kindHello                  // the connection stands
	kindCredit                 // nothing but a grant
	kindBye                    // nothing more comes
)

// A message begins with
//
//	0   seq     4 bytes, little-endian as all: number of this message of data, or of the next if it is none
//	4   grant   4 bytes: the peer may send messages of data below this number
//	8   heard   4 bytes: the grant that the sender knows
//	12  kind    1 byte
//	13  hungry  1 byte: 1 if the sender has now used all that it was granted
//	14  zero    2 bytes
const headerBytes = 16

// header is the beginning of a message. Numbers wrap around.
type header struct {
	seq, grant, heard uint32
	kind              kind
	hungry            bool
}

func (h *header) put(b []byte) {
	rest := uint64(h.heard) | uint64(h.kind)<<32
	if h.hungry {
		rest |= 1 << 40
	}
	binary.LittleEndian.PutUint64(b[:8], uint64(h.seq)|uint64(h.grant)<<32)
	binary.LittleEndian.PutUint64(b[8:headerBytes], rest)
}

// parseHeader reads the beginning of a message. Only one of data has something behind it.
func parseHeader(b []byte) (header, error) {
	if len(b) < headerBytes {
		return header{}, errNoHeader(b)
	}
	first, rest := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	h := header{seq: uint32(first), grant: uint32(first >> 32), heard: uint32(rest), kind: kind(rest >> 32), hungry: rest>>40 == 1}
	if h.kind-kindData > kindBye-kindData || rest>>41 != 0 || h.kind != kindData && len(b) != headerBytes {
		return header{}, errNoHeader(b)
	}
	return h, nil
}

func errNoHeader(b []byte) error {
	return fmt.Errorf("%w: message of %d bytes that begins with %x", fabric.ErrCorrupt, len(b), b[:min(len(b), headerBytes)])
}
