// Algorithms that post many messages at once keep the handles in the Peer's scratch memory, which is bytes, since a
// slice of their own would be allocated by every call. A Handle holds no pointers, and scratch memory is aligned
// for it.

package coll

import "unsafe"

// handles is an empty slice with room for n handles.
func handles(p Peer, n int) []Handle {
	b := p.Scratch(n * int(unsafe.Sizeof(Handle{})))
	return unsafe.Slice((*Handle)(unsafe.Pointer(unsafe.SliceData(b))), n)[:0]
}
