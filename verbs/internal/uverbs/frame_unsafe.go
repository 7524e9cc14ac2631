package uverbs

// Unsafe because a command contains the address to which the kernel writes the answer, and because the kernel's structs are
// handed over as the bytes they are.
//
// The address is that of Go memory. It stays right because Go does not move objects of the heap, on which all of verbs stands:
// registered memory is such memory, so pinning the few bytes of a command would make nothing safer. Commands and answers are in
// the heap since they escape through [Kernel], and alive because the call that uses them takes both as arguments. The structs
// have neither pointers nor padding of the compiler's, which the tests of internal/abi see to.

import (
	"unsafe"

	"github.com/ibrun/ibrun/internal/memaddr"
)

// address returns the address of the first byte, or 0 for an empty slice.
func address(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	return memaddr.Of(b)
}

// BytesOf returns the memory of a kernel struct: of a command, of a reply, or of what a driver adds to them.
func BytesOf[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}
