// Package attached allocates blocks of the buffer that a program has attached for buffered sends.
//
// The caller holds the lock of the engine.
package attached

import "slices"

// alignment is that of the blocks, in bytes. So a message takes fewer bytes besides its own than
// the overhead that programs are told, proto.BufferedOverhead.
const alignment = 64

// Buffer is the attached buffer. The zero Buffer has no memory: none is attached.
type Buffer struct {
	buf    []byte
	blocks []block // in use, in ascending order
	last   int     // id of the last block allocated
}

type block struct{ id, from, to int }

// Attach makes the blocks be in buf, and reports whether no buffer was attached before.
func (a *Buffer) Attach(buf []byte) bool {
	if a.buf != nil {
		return false
	}
	a.buf = buf
	return true
}

// Attached reports whether a buffer is attached.
func (a *Buffer) Attached() bool { return a.buf != nil }

// Unused reports whether no block is in use.
func (a *Buffer) Unused() bool { return len(a.blocks) == 0 }

// Detach returns the buffer, which is not attached any more. No block may be in use.
func (a *Buffer) Detach() []byte {
	buf := a.buf
	a.buf = nil
	return buf
}

// Alloc allocates n bytes: the first gap that is long enough. It returns the number by which Free
// frees them. ok is false if there is no room, or no buffer.
func (a *Buffer) Alloc(n int) (b []byte, id int, ok bool) {
	at, i := 0, 0
	for ; i < len(a.blocks) && a.blocks[i].from-at < n; i++ {
		at = (a.blocks[i].to + alignment - 1) &^ (alignment - 1)
	}
	if a.buf == nil || len(a.buf)-at < n {
		return nil, 0, false
	}
	a.last++
	a.blocks = slices.Insert(a.blocks, i, block{a.last, at, at + n})
	return a.buf[at : at+n : at+n], a.last, true
}

// Free frees a block.
func (a *Buffer) Free(id int) {
	a.blocks = slices.DeleteFunc(a.blocks, func(x block) bool { return x.id == id })
}
