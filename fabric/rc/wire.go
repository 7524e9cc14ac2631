package rc

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
	_ = b[headerBytes-1]
	binary.LittleEndian.PutUint32(b[0:], h.seq)
	binary.LittleEndian.PutUint32(b[4:], h.grant)
	binary.LittleEndian.PutUint32(b[8:], h.heard)
	b[12], b[13], b[14], b[15] = byte(h.kind), 0, 0, 0
	if h.hungry {
		b[13] = 1
	}
}

// parseHeader reads the beginning of a message. Only one of data has something behind it.
func parseHeader(b []byte) (header, error) {
	if len(b) < headerBytes {
		return header{}, fmt.Errorf("%w: message of %d bytes, which has no header", fabric.ErrCorrupt, len(b))
	}
	h := header{
		seq:    binary.LittleEndian.Uint32(b[0:]),
		grant:  binary.LittleEndian.Uint32(b[4:]),
		heard:  binary.LittleEndian.Uint32(b[8:]),
		kind:   kind(b[12]),
		hungry: b[13] == 1,
	}
	if h.kind < kindData || h.kind > kindBye || b[13] > 1 || b[14] != 0 || b[15] != 0 ||
		h.kind != kindData && len(b) != headerBytes {
		return header{}, fmt.Errorf("%w: message of %d bytes that begins with %x", fabric.ErrCorrupt, len(b), b[:headerBytes])
	}
	return h, nil
}
