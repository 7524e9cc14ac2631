package uverbs

// Unsafe because a command contains the address to which the kernel writes the response, and because the kernel's structs are
// passed as bytes.
//
// The address is that of Go memory. It stays valid because Go does not move objects of the heap. All of verbs depends on that:
// registered memory is in the heap too, so pinning the few bytes of a command would gain nothing. Commands and responses are in
// the heap because they escape through [Kernel], and alive because the call that uses them takes both as arguments. The structs
// have neither pointers nor padding of the compiler, which the tests of internal/abi check.

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

// BytesOf returns the memory of a kernel struct: of a command, of a response, or of what a driver adds to them.
func BytesOf[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}
