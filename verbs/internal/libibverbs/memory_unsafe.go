//go:build linux && !static && (amd64 || arm64)

package libibverbs

// Unsafe because C returns addresses of its own memory, and takes addresses of Go memory. The former belong to objects that
// exist: package verbs makes no call for an object after its Close. The latter belong to the Go heap, which does not move, and
// the object that passes them to C keeps the memory reachable.

import (
	"unsafe"

	"github.com/ibrun/ibrun/internal/abi/ibv"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

const (
	gidEntrySize = uint64(unsafe.Sizeof(uverbs.GIDEntry{}))
	sendWRSize   = unsafe.Sizeof(ibv.SendWR{})
	recvWRSize   = unsafe.Sizeof(ibv.RecvWR{})
	sgeSize      = unsafe.Sizeof(ib.SGE{})
)

// structAt returns the struct at an address of C's memory.
func structAt[T any](addr uintptr) *T {
	return *(**T)(unsafe.Pointer(&addr))
}

// addresses returns an array of n pointers in C's memory.
func addresses(array uintptr, n int) []uintptr {
	return unsafe.Slice(structAt[uintptr](array), n)
}

// operation returns a member of the union struct ibv_send_wr.wr.
func operation[T ibv.RDMA | ibv.Atomic | ibv.UD](wr *ibv.SendWR) *T {
	return (*T)(unsafe.Pointer(&wr.Op))
}

// addressOf returns the address of memory that is in the heap.
func addressOf(heap []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(heap))) }

// onHeap allocates a slice and returns it with the address of its first element, which is valid while the slice is reachable. It
// must not be inlined, because then the slice could be on the caller's stack.
//
//go:noinline
func onHeap[T any](n int) ([]T, uintptr) {
	s := make([]T, max(n, 1))
	return s, uintptr(unsafe.Pointer(&s[0]))
}
