package proto

import "errors"

// ErrNoBuffer reports that the attached buffer has no room for a buffered send, or that no buffer is attached.
var ErrNoBuffer = errors.New("no room in the attached buffer")

// BufferedOverhead is the most that a buffered send takes of the attached buffer besides its payload.
const BufferedOverhead = 512

// startBuffered sends a copy of r's buffer and completes r.
func (r *Request) startBuffered() error {
	e := r.e
	b, id, ok := e.attached.Alloc(r.size())
	if !ok {
		return ErrNoBuffer
	}
	if r.data != nil {
		r.data.Pack(b, 0)
	} else {
		copy(b, r.buf)
	}
	c := e.requests.take()
	c.send, c.mode, c.route, c.buf = true, Standard, r.route, b
	c.flags, c.block = detached|attachedMem, id
	if r.flags&noted != 0 {
		own, _ := e.notes.Of(r.index)
		c.setNote(own)
	}
	if err := e.startSend(c); err != nil {
		return err
	}
	e.requests.complete(r, nil)
	return nil
}

// Attach makes the engine use buf for buffered sends, until Detach.
func (e *Engine) Attach(buf []byte) error {
	e.lock()
	defer e.unlock()
	if !e.attached.Attach(buf) {
		return ErrState
	}
	return nil
}

// Detach blocks until the attached buffer holds no message any more, and returns the buffer.
func (e *Engine) Detach() ([]byte, error) {
	e.lock()
	defer e.unlock()
	if !e.attached.Attached() {
		return nil, ErrState
	}
	g := goal{watch: watch{what: bufferUnused}}
	e.waiters.await(&g)
	switch {
	case !e.waiters.reached(&g):
		return nil, e.failure.err
	case !e.attached.Attached():
		return nil, ErrState // another goroutine has detached it
	}
	return e.attached.Detach(), nil
}
