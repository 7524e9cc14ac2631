package perf

import (
	"encoding/binary"
	"sync/atomic"
)

// placeWords is the room for the text of a source position, in words.
const placeWords = 15

// place is an operation and the source position of its call. It is written only if the recorder has Places. The head is 0 while
// the text changes, and is stored last.
type place struct {
	head uint64 // sequence number << 16 | operation << 8 | length of the text; 0: none
	text [placeWords]uint64
}

// write stores an operation and the end of a source position.
func (p *place) write(seq uint64, op Op, where string) {
	var b [8 * placeWords]byte
	n := copy(b[:], where[max(0, len(where)-len(b)):])
	set(&p.head, 0)
	for i := range p.text {
		set(&p.text[i], binary.NativeEndian.Uint64(b[8*i:]))
	}
	set(&p.head, seq<<16|uint64(op&(maxOps-1))<<8|uint64(n))
}

// of returns the source position of the operation with this sequence number, or "".
func (p *place) of(seq uint64) string {
	if before := atomic.LoadUint64(&p.head); before>>16 != seq<<16>>16 {
		return ""
	}
	_, where := p.read()
	return where
}

// read returns the operation and the source position; NoOp if there is none, or if it has just changed several times.
func (p *place) read() (Op, string) {
	for range 8 {
		head := atomic.LoadUint64(&p.head)
		n := int(head & 0xff)
		if head == 0 || n > 8*placeWords {
			return NoOp, ""
		}
		var b [8 * placeWords]byte
		for i := range p.text {
			binary.NativeEndian.PutUint64(b[8*i:], atomic.LoadUint64(&p.text[i]))
		}
		if atomic.LoadUint64(&p.head) == head {
			return Op(head>>8) & (maxOps - 1), string(b[:n])
		}
	}
	return NoOp, ""
}

// Call is a call of the program: the operation, or NoOp for the initialisation, and its source position, such as
// "solver/main.go:31".
type Call struct {
	Op    Op
	Where string
}

// Places makes the recorder record the source positions of calls, which where returns for the goroutine that calls it. It must be
// called before any operation begins.
func (r *Recorder) Places(where func() string) {
	if r != nil {
		r.where = where
	}
}

// Called records that the program calls an operation, with its source position. Without Places it does nothing.
func (r *Recorder) Called(op Op) {
	if r != nil && r.where != nil {
		r.seq++
		r.page.called.write(r.seq, op, r.where())
	}
}

// LastCall returns the operation that the program called last. It is known only if the rank records Places.
func (p *Page) LastCall() Call {
	op, where := p.l.called.read()
	return Call{op, where}
}
