package control

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ibrun/ibrun/internal/auth"
)

// MaxMessage is the length of the longest message in bytes.
const MaxMessage = 1 << 20

// The kinds of frame.
const (
	kindMessage = 1
	kindBeat    = 2 // what the clock says
	kindHold    = 3 // the sender is about to stand still: do not wait for beats
)

const (
	headLen = 1 + 4 // kind and length of the body
	tagLen  = auth.MACBytes
)

// errTimeout is what a read returns that has waited too long.
var errTimeout = os.ErrDeadlineExceeded

// errForged says that a frame was not sent by who is on the other side of the connection, or not now.
var errForged = errors.New("what came does not bear the other side's mark")

// frame is what travels: kind, length, body, tag.
type frame struct {
	kind byte
	body []byte
	sent chan struct{} // closed when it has been sent, or cannot be; nil: nobody waits
}

// sealer makes frames that only the other side's opener takes, in this order.
type sealer struct {
	key   auth.Key
	count uint64
	buf   []byte
}

// seal returns the bytes of a frame, valid until the next call.
func (s *sealer) seal(f frame) []byte {
	s.buf = append(s.buf[:0], f.kind)
	s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(len(f.body)))
	s.buf = append(s.buf, f.body...)
	tag := s.key.FrameMAC(s.count, s.buf)
	s.count++
	return append(s.buf, tag...)
}

// opener takes frames.
type opener struct {
	key   auth.Key
	count uint64
}

// read reads one frame. At the end of the stream between frames the error is io.EOF.
func (o *opener) read(r io.Reader) (frame, error) {
	var head [headLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > MaxMessage {
		return frame{}, fmt.Errorf("%w: a frame of %d bytes", errForged, n)
	}
	rest := make([]byte, int(n)+tagLen)
	if _, err := io.ReadFull(r, rest); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	f := frame{kind: head[0], body: rest[:n:n]}
	if !o.key.VerifyFrame(rest[n:], o.count, head[:], f.body) {
		return frame{}, errForged
	}
	o.count++
	if f.kind < kindMessage || f.kind > kindHold {
		return frame{}, fmt.Errorf("a frame of kind %d, which this version does not know", f.kind)
	}
	return f, nil
}
