package proto

import (
	"errors"
	"slices"
)

// ErrNoBuffer says that the attached buffer has no room for a buffered send, or that none is attached.
var ErrNoBuffer = errors.New("no room in the attached buffer")

// BufferedOverhead is what a buffered send takes of the attached buffer besides its payload, at most.
const BufferedOverhead = 512

// loans are the parts of the attached buffer that hold messages on their way.
type loans struct {
	buf  []byte
	out  []loan // ascending
	last int    // number of the last loan
}

type loan struct{ number, from, to int }

// take finds room for n bytes. Parts begin at multiples of 64, so that what a message costs is at most the overhead.
func (l *loans) take(n int) (b []byte, number int, err error) {
	at, i := 0, 0
	for ; i < len(l.out) && l.out[i].from-at < n; i++ {
		at = (l.out[i].to + 63) &^ 63
	}
	if l.buf == nil || len(l.buf)-at < n {
		return nil, 0, ErrNoBuffer
	}
	l.last++
	l.out = slices.Insert(l.out, i, loan{l.last, at, at + n})
	return l.buf[at : at+n : at+n], l.last, nil
}

func (l *loans) end(number int) {
	l.out = slices.DeleteFunc(l.out, func(x loan) bool { return x.number == number })
}

// buffered sends a copy of r's buffer and completes r.
func (e *Engine) buffered(r *Request) error {
	b, number, err := e.loans.take(len(r.buf))
	if err != nil {
		return err
	}
	copy(b, r.buf)
	c := e.take()
	c.send, c.mode, c.route, c.buf = true, Standard, r.route, b
	c.ends, c.loan = unseen|lent, number
	if err := e.start(c); err != nil {
		return err
	}
	e.complete(r, nil)
	return nil
}

// Attach lends buf to the engine for buffered sends.
func (e *Engine) Attach(buf []byte) error {
	e.lock()
	defer e.unlock()
	if e.loans.buf != nil {
		return ErrState
	}
	e.loans.buf = buf
	return nil
}

// Detach waits until no message is left in the attached buffer, and returns it.
func (e *Engine) Detach() ([]byte, error) {
	e.lock()
	defer e.unlock()
	if e.loans.buf == nil {
		return nil, ErrState
	}
	g := goal{what: unlent}
	e.await(&g)
	switch {
	case !g.met(e):
		return nil, e.broken
	case e.loans.buf == nil:
		return nil, ErrState // another goroutine has detached it
	}
	buf := e.loans.buf
	e.loans.buf = nil
	return buf, nil
}
