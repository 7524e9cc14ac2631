// Algorithms that post many messages together keep the handles in the Peer's scratch memory, because every call would allocate
// a slice of its own. Scratch memory is bytes; a Handle holds no pointers, and scratch memory is aligned for it.

package coll

import "unsafe"

// handles returns an empty slice with room for n handles.
func handles(p Peer, n int) []Handle {
	b := p.Scratch(n * int(unsafe.Sizeof(Handle{})))
	return unsafe.Slice((*Handle)(unsafe.Pointer(unsafe.SliceData(b))), n)[:0]
}
