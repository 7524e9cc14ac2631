package control

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ibrun/ibrun/internal/auth"
)

// MaxMessage is the maximum length of a message in bytes.
const MaxMessage = 1 << 20

// The kinds of frame.
const (
	kindMessage   = 1
	kindHeartbeat = 2 // see peerClock
	kindSuspend   = 3 // the sender is about to be stopped: do not expect heartbeats
	kindAck       = 4 // how many messages the sender has received; the first frame of a link
	kindClose     = 5 // the sender sends no more messages
)

const (
	headerLen = 1 + 4 // kind and length of the body
	tagLen    = auth.MACBytes
)

// errTimeout is the error of a read or write after its deadline.
var errTimeout = os.ErrDeadlineExceeded

var (
	// errProtocol means that the other side of this connection, which has proved itself, does not follow the protocol.
	errProtocol = errors.New("it does not follow the protocol")
	// errReplaced means that another link has taken the place of this one.
	errReplaced = errors.New("another link has taken its place")
)

// errNotAuthentic means that a frame was not sent by the other side of this connection, or is not the next one that it sent.
var errNotAuthentic = errors.New("received a frame that does not authenticate")

// frame is the unit of transmission. On the wire it has its kind, the length of the body, the body and the tag.
type frame struct {
	kind byte
	body []byte
}

// frameWriter encodes the frames of one direction. The frameReader of the other side accepts them only in the same order.
type frameWriter struct {
	key auth.Key
	seq uint64 // number of the next frame
	buf []byte
}

// encode returns the bytes of a frame, valid until the next call.
func (w *frameWriter) encode(f frame) []byte {
	w.buf = append(w.buf[:0], f.kind)
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(f.body)))
	w.buf = append(w.buf, f.body...)
	tag := w.key.FrameMAC(w.seq, w.buf)
	w.seq++
	return append(w.buf, tag...)
}

// frameReader reads and authenticates the frames of one direction.
type frameReader struct {
	key auth.Key
	seq uint64 // number of the next frame
}

// read reads one frame. At the end of the stream between frames the error is io.EOF.
func (r *frameReader) read(from io.Reader) (frame, error) {
	var head [headerLen]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > MaxMessage {
		return frame{}, fmt.Errorf("%w: a frame of %d bytes", errNotAuthentic, n)
	}
	rest := make([]byte, int(n)+tagLen)
	if _, err := io.ReadFull(from, rest); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	f := frame{kind: head[0], body: rest[:n:n]}
	if !r.key.VerifyFrame(rest[n:], r.seq, head[:], f.body) {
		return frame{}, errNotAuthentic
	}
	r.seq++
	if f.kind < kindMessage || f.kind > kindClose {
		return frame{}, fmt.Errorf("%w: received a frame of unknown kind %d", errProtocol, f.kind)
	}
	return f, nil
}
