package proto

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/attached"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
)

// ErrNoBuffer reports that the attached buffer has no room for a buffered send, or that no buffer
// is attached.
var ErrNoBuffer = errors.New("no room in the attached buffer")

// BufferedOverhead is the most that a buffered send takes of the attached buffer besides its
// payload.
const BufferedOverhead = 512

// startBuffered sends a copy of r's buffer and completes r.
func (x *sends) startBuffered(r *Request) error {
	b, id, ok := x.buffer.Alloc(r.size())
	if !ok {
		return ErrNoBuffer
	}
	if r.data != nil {
		r.data.Pack(b, 0)
	} else {
		copy(b, r.buf)
	}
	c := x.requests.take()
	c.send, c.mode, c.route, c.buf = true, Standard, r.route, b
	c.flags, c.block = detached|attachedMem, id
	if r.flags&noted != 0 {
		own, _ := x.notes.Of(r.index)
		c.setNote(x.notes, own)
	}
	if err := x.start(c); err != nil {
		return err
	}
	x.requests.complete(r, nil)
	return nil
}

// AttachedBuffer has the buffer from which buffered sends are sent.
type AttachedBuffer struct {
	mu      *lock.Mutex // of the engine
	waiters *waiters
	buffer  attached.Buffer
}

// AttachedBuffer returns what buffered sends use.
func (e *Engine) AttachedBuffer() *AttachedBuffer { return &e.buffered }

// Attach makes the engine use buf for buffered sends, until Detach.
func (b *AttachedBuffer) Attach(buf []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.buffer.Attach(buf) {
		return ErrState
	}
	return nil
}

// Detach blocks until the attached buffer holds no message any more, and returns the buffer.
func (b *AttachedBuffer) Detach() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.buffer.Attached() {
		return nil, ErrState
	}
	g := goal{watch: watch{what: bufferUnused}}
	b.waiters.await(&g)
	switch {
	case !b.waiters.reached(&g):
		return nil, b.waiters.failure.err
	case !b.buffer.Attached():
		return nil, ErrState // another goroutine has detached it
	}
	return b.buffer.Detach(), nil
}
