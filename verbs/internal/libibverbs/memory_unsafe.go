//go:build linux && !static && (amd64 || arm64)

package libibverbs

// Unsafe because C hands out addresses of its own memory, and wants addresses of ours. The former are of live objects: package
// verbs makes no call for an object after its Close. The latter are of the Go heap, which does not move, and what they
// are of is kept reachable by the object that passes them on.

import (
	"unsafe"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

const (
	gidEntrySize = uint64(unsafe.Sizeof(uverbs.GIDEntry{}))
	sendWRSize   = unsafe.Sizeof(ibv.SendWR{})
	sgeSize      = unsafe.Sizeof(ib.SGE{})
)

// at is the structure at an address of C's memory.
func at[T any](addr uintptr) *T {
	return *(**T)(unsafe.Pointer(&addr))
}

// addresses is an array of n pointers in C's memory.
func addresses(array uintptr, n int) []uintptr {
	return unsafe.Slice(at[uintptr](array), n)
}

// operation is the member of the union struct ibv_send_wr.wr that an opcode uses.
func operation[T ibv.RDMA | ibv.Atomic | ibv.UD](wr *ibv.SendWR) *T {
	return (*T)(unsafe.Pointer(&wr.Op))
}

// onHeap makes a slice whose first element has the address that is returned with it, for as long as it is reachable. It is never
// inlined, because then the slice could be on the caller's stack.
//
//go:noinline
func onHeap[T any](n int) ([]T, uintptr) {
	s := make([]T, max(n, 1))
	return s, uintptr(unsafe.Pointer(&s[0]))
}
