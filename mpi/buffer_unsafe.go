package mpi

// This file uses unsafe because the exported functions are generic, and their implementations take bytes. It converts slices
// of elements to slices of bytes in the same memory, and back for user-defined operations. Elements are plain numbers, so all
// byte values are valid.

import (
	"unsafe"

	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// Elem lists the element types of messages: numbers, bool, and types derived from them. MPI-5.0 §3.2.2.
type Elem interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~uintptr |
		~float32 | ~float64 | ~complex64 | ~complex128 | ~bool
}

// bytesOf returns the memory of x as bytes.
func bytesOf[T Elem](x []T) []byte {
	var t T
	size := int(unsafe.Sizeof(t))
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), cap(x)*size)[:len(x)*size]
}

// elementsOf returns the memory of b as elements.
func elementsOf[T Elem](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// sizeOf returns the size of an element in bytes.
func sizeOf[T Elem]() int {
	var t T
	return int(unsafe.Sizeof(t))
}

// handlesOf returns the memory of reqs as handles of the engine. A Request contains a handle and nothing else.
func handlesOf(reqs []Request) []proto.Handle {
	return unsafe.Slice((*proto.Handle)(unsafe.Pointer(unsafe.SliceData(reqs))), len(reqs))
}

// overlap reports whether a and b share memory.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	p, q := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}

// sameStart reports whether a and b start at the same byte.
func sameStart(a, b []byte) bool {
	return len(a) != 0 && len(b) != 0 && unsafe.SliceData(a) == unsafe.SliceData(b)
}

// trailerWords returns what begins a segment's trailer, and its last word. Its length must be a multiple of eight.
func trailerWords(b []byte) (*mismatchRecord, *uint64) {
	_ = b[unsafe.Sizeof(mismatchRecord{})+8-1]
	return (*mismatchRecord)(unsafe.Pointer(unsafe.SliceData(b))), (*uint64)(unsafe.Pointer(unsafe.SliceData(b[len(b)-8:])))
}
