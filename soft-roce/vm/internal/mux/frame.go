package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// kind is the type of a frame. Frames of sessions and frames of programs are never mixed in one channel.
type kind byte

// Frames of a session; the id is the stream's.
const (
	kindOpen   kind = iota + 1 // a stream begins
	kindData                   // bytes of a stream
	kindCredit                 // more bytes may be sent: a number of 4 bytes
	kindClose                  // the sender neither reads nor writes this stream any more
)

// Frames of a program, on a stream; the id is 0.
const (
	kindStart  kind = iota + 16 // a Command, as JSON
	kindStdin                   // a piece of standard input, empty at its end
	kindStdout                  // a piece of standard output
	kindStderr                  // a piece of standard error
	kindExit                    // an exit, as JSON; the last frame
	kindReady                   // the guest is up; the only frame
)

const (
	headerSize = 9       // kind, id, length
	maxPayload = 1 << 22 // a Command with its environment; other data is sent in pieces
	pieceSize  = 32 << 10
)

// frame is the unit of everything that is sent.
type frame struct {
	kind kind
	id   uint32
	data []byte
}

// errFrame is the error for an invalid frame of the other end.
var errFrame = errors.New("protocol error of the other end")

// append encodes the frame.
func (f frame) append(b []byte) []byte {
	b = append(b, byte(f.kind))
	b = binary.LittleEndian.AppendUint32(b, f.id)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.data)))
	return append(b, f.data...)
}

// writeTo sends the frame in one write.
func (f frame) writeTo(w io.Writer) error {
	_, err := w.Write(f.append(make([]byte, 0, headerSize+len(f.data))))
	return err
}

// decode reads one frame. At the end of r it returns io.EOF, and io.ErrUnexpectedEOF within a frame.
func decode(r io.Reader) (frame, error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: kind(head[0]), id: binary.LittleEndian.Uint32(head[1:])}
	size := binary.LittleEndian.Uint32(head[5:])
	if known := f.kind >= kindOpen && f.kind <= kindClose || f.kind >= kindStart && f.kind <= kindReady; !known {
		return frame{}, fmt.Errorf("%w: a frame of kind %d", errFrame, f.kind)
	}
	if size > maxPayload {
		return frame{}, fmt.Errorf("%w: a frame of %d bytes", errFrame, size)
	}
	f.data = make([]byte, size)
	if _, err := io.ReadFull(r, f.data); errors.Is(err, io.EOF) {
		return frame{}, io.ErrUnexpectedEOF
	} else if err != nil {
		return frame{}, err
	}
	return f, nil
}
