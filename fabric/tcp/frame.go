package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/crc32c"
)

// After the handshake both sides send frames:
//
//	0   length   3 bytes, of the body that follows the header
//	3   kind     1 byte
//	4   ack      4 bytes: how many bytes of messages the sender has received in this session, modulo 2^32
//	8   sum      4 bytes: CRC32C of the body
//	12  check    4 bytes: CRC32C of the header up to here
//	16  body
//
// Numbers are little-endian. If the peers have agreed on no checksums, sum and check are 0. Reads are answered in the order of
// their requests, so answers carry no identifier.
//
// The memory of a push is not part of the body of its kindPush, which has a checksum of it.
//
// kindMessage and kindShutdown are sent again if the connection breaks. The other kinds need not be: Reads are requested again,
// and the rest is of use only for the connection.
type kind uint8

const (
	kindMessage  kind = iota + 1 // header and payload of a Send
	kindRead                     // a request
	kindData                     // the next bytes of the oldest Read; the bytes of one Read come in several frames
	kindRefusal                  // the oldest Read is not possible
	kindShutdown                 // the sender has closed and sends nothing more
	kindPush                     // a request, and then the memory that it names: a Read that begins with it is expected
	kindDropped                  // pushed memory was not read
	kindAck                      // nothing but the field ack
	kindAddress                  // where the sender listens, as appendAddress encodes it
	kindCount
	kindSkip = kindCount // never sent: marks a frame in a receive buffer that has been handled before its turn
)

const (
	headerBytes  = 16
	checkedBytes = headerBytes - 4 // of a header, which the field check covers
	requestBytes = 28
	// maxEager is the largest payload of one message. maxHeader is room for the header of the protocols above.
	maxEager  = 128 << 10
	maxHeader = 64
	maxSend   = maxEager + maxHeader
	// chunkBytes is the largest part of a Read in one frame. Other messages wait for its end, as they would in the kernel, which
	// holds as much. Each system call that sends part of a stream delays it: within one machine 1 MiB took 200, 170, 130 and 104
	// us in calls of 128, 256, 512 KiB and 1 MiB.
	chunkBytes = 1 << 20
)

// maxBody is the maximum length of the body of a frame, by kind.
var maxBody = [kindCount]int{kindMessage: maxSend, kindRead: requestBytes, kindData: chunkBytes, kindPush: requestBytes,
	kindAddress: maxAddressBytes}

// errChecksum says that bytes were changed on the way.
var errChecksum = errors.New("a checksum does not match: bytes were changed on the way")

// addSum returns the checksum of the bytes that have the checksum sum, followed by b.
func addSum(sum uint32, b []byte) uint32 { return crc32c.Update(sum, b) }

// frame is the header of a frame.
type frame struct {
	kind   kind
	length int // of the body
	ack    uint32
	sum    uint32
}

// put writes the header to b, with a checksum if checked is true.
func (f frame) put(b []byte, checked bool) {
	_ = b[headerBytes-1]
	binary.LittleEndian.PutUint64(b, uint64(f.length)|uint64(f.kind)<<24|uint64(f.ack)<<32)
	binary.LittleEndian.PutUint32(b[8:], f.sum)
	check := uint32(0)
	if checked {
		check = addSum(0, b[:checkedBytes])
	}
	binary.LittleEndian.PutUint32(b[checkedBytes:], check)
}

// parseFrame reads a frame header. ok is false if b does not hold a whole one yet. If checked is true it verifies the checksum of
// the header.
func parseFrame(b []byte, checked bool) (f frame, ok bool, err error) {
	if len(b) < headerBytes {
		return frame{}, false, nil
	}
	word := binary.LittleEndian.Uint64(b)
	check := binary.LittleEndian.Uint32(b[checkedBytes:])
	f = frame{kind(word >> 24), int(word & (1<<24 - 1)), uint32(word >> 32), binary.LittleEndian.Uint32(b[8:])}
	if checked && check != addSum(0, b[:checkedBytes]) {
		return frame{}, false, errChecksum
	}
	isRequest := f.kind == kindRead || f.kind == kindPush
	if f.kind == 0 || f.kind >= kindCount || f.length > maxBody[f.kind] || isRequest && f.length != requestBytes ||
		!checked && check != 0 {
		return frame{}, false, fmt.Errorf("%w: frame %x", fabric.ErrCorrupt, b[:headerBytes])
	}
	return f, true, nil
}

// storedFrame reads the header of a frame that parseFrame has accepted before.
func storedFrame(b []byte) (k kind, length int) {
	_ = b[3]
	return kind(b[3]), int(b[0]) | int(b[1])<<8 | int(b[2])<<16
}

// request is the body of kindRead and kindPush: the memory that is to be read, or that is pushed.
type request struct {
	src   fabric.RemoteKey
	bytes uint64
	sum   uint32 // checksum of the memory that is pushed; otherwise 0
}

// append appends the encoded request to b.
func (r request) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.src.Addr)
	b = binary.LittleEndian.AppendUint64(b, r.src.Key)
	b = binary.LittleEndian.AppendUint64(b, r.bytes)
	return binary.LittleEndian.AppendUint32(b, r.sum)
}

// parseRequest decodes a request. ok is false if b is too short.
func parseRequest(b []byte) (r request, ok bool) {
	if len(b) < requestBytes {
		return request{}, false
	}
	return request{
		fabric.RemoteKey{Addr: binary.LittleEndian.Uint64(b), Key: binary.LittleEndian.Uint64(b[8:])},
		binary.LittleEndian.Uint64(b[16:]),
		binary.LittleEndian.Uint32(b[24:]),
	}, true
}
