package core

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// BsendOverhead is the maximum number of bytes that a message uses in the attached buffer beside
// its data.
const BsendOverhead = proto.BufferedOverhead

// BufferAttach provides buf as memory for buffered sends until BufferDetach.
func (p *Process) BufferAttach(buf []byte) error {
	if err := p.checkUsable("BufferAttach"); err != nil {
		return err
	}
	if err := p.engine.AttachedBuffer().Attach(buf); err != nil {
		return p.newError("BufferAttach", ErrBuffer, errors.New("a buffer is already attached"))
	}
	return nil
}

// BufferDetach blocks until all buffered messages have left, and returns the buffer.
func (p *Process) BufferDetach() ([]byte, error) {
	if err := p.checkUsable("BufferDetach"); err != nil {
		return nil, err
	}
	buf, err := p.engine.AttachedBuffer().Detach()
	if errors.Is(err, proto.ErrState) {
		return nil, p.newError("BufferDetach", ErrBuffer, errors.New("no buffer is attached"))
	}
	return buf, p.wrapError("BufferDetach", err)
}
