package proto

import (
	"errors"
	"slices"
)

// ErrNoBuffer reports that the attached buffer has no room for a buffered send, or that no buffer is attached.
var ErrNoBuffer = errors.New("no room in the attached buffer")

// BufferedOverhead is the most that a buffered send takes of the attached buffer besides its payload.
const BufferedOverhead = 512

// attachedBuffer allocates blocks of the attached buffer, which hold the messages of buffered sends.
type attachedBuffer struct {
	buf    []byte
	blocks []attachedBlock // in use, in ascending order
	last   int             // id of the last block allocated
}

type attachedBlock struct{ id, from, to int }

// alloc allocates n bytes. Blocks begin at multiples of 64, so the overhead of a message is at most BufferedOverhead.
func (a *attachedBuffer) alloc(n int) (b []byte, id int, err error) {
	at, i := 0, 0
	for ; i < len(a.blocks) && a.blocks[i].from-at < n; i++ {
		at = (a.blocks[i].to + 63) &^ 63
	}
	if a.buf == nil || len(a.buf)-at < n {
		return nil, 0, ErrNoBuffer
	}
	a.last++
	a.blocks = slices.Insert(a.blocks, i, attachedBlock{a.last, at, at + n})
	return a.buf[at : at+n : at+n], a.last, nil
}

func (a *attachedBuffer) freeBlock(id int) {
	a.blocks = slices.DeleteFunc(a.blocks, func(x attachedBlock) bool { return x.id == id })
}

// startBuffered sends a copy of r's buffer and completes r.
func (r *Request) startBuffered() error {
	e := r.e
	b, id, err := e.attached.alloc(r.size())
	if err != nil {
		return err
	}
	if r.data != nil {
		r.data.Pack(b, 0)
	} else {
		copy(b, r.buf)
	}
	c := e.requests.take(e)
	c.send, c.mode, c.route, c.buf = true, Standard, r.route, b
	c.flags, c.block = detached|attachedMem, id
	if r.flags&noted != 0 {
		own, _ := e.notes.Of(r.index)
		c.setNote(own)
	}
	if err := e.startSend(c); err != nil {
		return err
	}
	e.complete(r, nil)
	return nil
}

// Attach makes the engine use buf for buffered sends, until Detach.
func (e *Engine) Attach(buf []byte) error {
	e.lock()
	defer e.unlock()
	if e.attached.buf != nil {
		return ErrState
	}
	e.attached.buf = buf
	return nil
}

// Detach blocks until the attached buffer holds no message any more, and returns the buffer.
func (e *Engine) Detach() ([]byte, error) {
	e.lock()
	defer e.unlock()
	if e.attached.buf == nil {
		return nil, ErrState
	}
	g := goal{what: bufferUnused}
	e.await(&g)
	switch {
	case !g.reached(e):
		return nil, e.failure.err
	case e.attached.buf == nil:
		return nil, ErrState // another goroutine has detached it
	}
	buf := e.attached.buf
	e.attached.buf = nil
	return buf, nil
}
