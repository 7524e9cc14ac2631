package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// Once greeted, both sides send frames:
//
//	0   length   4 bytes, of what follows the header
//	4   kind     1 byte, 3 zero
//	8   ...
//
// Numbers are little-endian. Reads are answered in the order in which they came, so that answers need no names.
type kind uint8

const (
	kindMessage kind = iota + 1 // header and payload of a Send
	kindRead                    // address, key, bytes: 8 bytes each
	kindData                    // the next bytes of the oldest Read; those of one come in several frames
	kindRefusal                 // the oldest Read is not possible
	kindBye                     // the sender has closed, and sends nothing more
	kindPush                    // address, key, bytes, of memory that follows the frame: a Read that begins with it is expected
	kindDropped                 // what was pushed was not read
	kinds
	kindNothing = kinds // in a buffer here: a frame that was dealt with before its turn
)

const (
	headerBytes  = 8
	requestBytes = 24
	// maxEager is the largest payload of one message, and maxSend that and room for a header of those who send it.
	maxEager = 128 << 10
	maxSend  = maxEager + 64
	// chunkBytes is the most of a Read that goes as one frame: other messages wait for its end, as they would in the kernel, which
	// holds as much. Each call that sends part of a stream delays it: within a machine 1 MiB took 200, 170, 130 and 104 us in
	// calls of 128, 256, 512 KiB and 1 MiB.
	chunkBytes = 1 << 20
)

// longest is how long the body of a frame may be, by kind.
var longest = [kinds]int{kindMessage: maxSend, kindRead: requestBytes, kindData: chunkBytes, kindPush: requestBytes}

func putFrame(b []byte, k kind, length int) {
	binary.LittleEndian.PutUint64(b, uint64(length)|uint64(k)<<32)
}

// parseFrame reads a header. It reports false if b does not hold one yet.
func parseFrame(b []byte) (k kind, length int, ok bool, err error) {
	if len(b) < headerBytes {
		return 0, 0, false, nil
	}
	word := binary.LittleEndian.Uint64(b)
	k, length = kind(word>>32), int(uint32(word))
	asks := k == kindRead || k == kindPush
	if word>>40 != 0 || k == 0 || k >= kinds || length > longest[k] || asks && length != requestBytes {
		return 0, 0, false, fmt.Errorf("%w: frame %#x", fabric.ErrCorrupt, word)
	}
	return k, length, true, nil
}

// request is what a kindRead asks for, or a kindPush brings.
type request struct {
	src   fabric.RemoteKey
	bytes uint64
}

func (r request) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.src.Addr)
	b = binary.LittleEndian.AppendUint64(b, r.src.Key)
	return binary.LittleEndian.AppendUint64(b, r.bytes)
}

// parseRequest reads the body of a kindRead. It reports false if b is too short.
func parseRequest(b []byte) (r request, ok bool) {
	if len(b) < requestBytes {
		return request{}, false
	}
	return request{
		fabric.RemoteKey{Addr: binary.LittleEndian.Uint64(b), Key: binary.LittleEndian.Uint64(b[8:])},
		binary.LittleEndian.Uint64(b[16:]),
	}, true
}
