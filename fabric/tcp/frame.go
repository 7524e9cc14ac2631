package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// After the handshake both sides send frames:
//
//	0   length   4 bytes, of the body that follows the header
//	4   kind     1 byte, 3 zero
//	8   body
//
// Numbers are little-endian. Reads are answered in the order of their requests, so answers carry no identifier.
type kind uint8

const (
	kindMessage  kind = iota + 1 // header and payload of a Send
	kindRead                     // a request to read: address, key, number of bytes, 8 bytes each
	kindData                     // the next bytes of the oldest Read; the bytes of one Read come in several frames
	kindRefusal                  // the oldest Read is not possible
	kindShutdown                 // the sender has closed and sends nothing more
	kindPush                     // address, key, number of bytes of the memory that follows: a Read that begins with it is expected
	kindDropped                  // pushed memory was not read
	kindCount
	kindSkip = kindCount // never sent: marks a frame in a receive buffer that has been handled before its turn
)

const (
	headerBytes  = 8
	requestBytes = 24
	// maxEager is the largest payload of one message. maxSend adds room for the header of the protocols above.
	maxEager = 128 << 10
	maxSend  = maxEager + 64
	// chunkBytes is the largest part of a Read in one frame. Other messages wait for its end, as they would in the kernel, which
	// holds as much. Each system call that sends part of a stream delays it: within one machine 1 MiB took 200, 170, 130 and 104
	// us in calls of 128, 256, 512 KiB and 1 MiB.
	chunkBytes = 1 << 20
)

// maxBody is the maximum length of the body of a frame, by kind.
var maxBody = [kindCount]int{kindMessage: maxSend, kindRead: requestBytes, kindData: chunkBytes, kindPush: requestBytes}

// putFrame writes a frame header to b.
func putFrame(b []byte, k kind, length int) {
	binary.LittleEndian.PutUint64(b, uint64(length)|uint64(k)<<32)
}

// parseFrame reads a frame header. ok is false if b does not hold a whole one yet.
func parseFrame(b []byte) (k kind, length int, ok bool, err error) {
	if len(b) < headerBytes {
		return 0, 0, false, nil
	}
	word := binary.LittleEndian.Uint64(b)
	k, length = kind(word>>32), int(uint32(word))
	isRequest := k == kindRead || k == kindPush
	if word>>40 != 0 || k == 0 || k >= kindCount || length > maxBody[k] || isRequest && length != requestBytes {
		return 0, 0, false, fmt.Errorf("%w: frame %#x", fabric.ErrCorrupt, word)
	}
	return k, length, true, nil
}

// request is the body of kindRead and kindPush: the memory that is to be read, or that is pushed.
type request struct {
	src   fabric.RemoteKey
	bytes uint64
}

// append appends the encoded request to b.
func (r request) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.src.Addr)
	b = binary.LittleEndian.AppendUint64(b, r.src.Key)
	return binary.LittleEndian.AppendUint64(b, r.bytes)
}

// parseRequest decodes a request. ok is false if b is too short.
func parseRequest(b []byte) (r request, ok bool) {
	if len(b) < requestBytes {
		return request{}, false
	}
	return request{
		fabric.RemoteKey{Addr: binary.LittleEndian.Uint64(b), Key: binary.LittleEndian.Uint64(b[8:])},
		binary.LittleEndian.Uint64(b[16:]),
	}, true
}
