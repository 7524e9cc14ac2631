package mpi

// Unsafe because the bodies below the generic skin take bytes: here slices of elements become slices of the same memory
// in bytes, and the other way for the operations of users. Elements are plain numbers, so all bytes are valid ones.

import (
	"unsafe"

	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// Elem is what messages are made of: numbers and bool, and types made of them.
type Elem interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~uintptr |
		~float32 | ~float64 | ~complex64 | ~complex128 | ~bool
}

// bytesOf is the memory of x.
func bytesOf[T Elem](x []T) []byte {
	var t T
	size := int(unsafe.Sizeof(t))
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), cap(x)*size)[:len(x)*size]
}

// elementsOf is the same memory as elements.
func elementsOf[T Elem](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// sizeOf is the size of an element in bytes.
func sizeOf[T Elem]() int {
	var t T
	return int(unsafe.Sizeof(t))
}

// handlesOf is the same memory as the engine's handles, which is all that a request has in it.
func handlesOf(reqs []Request) []proto.Handle {
	return unsafe.Slice((*proto.Handle)(unsafe.Pointer(unsafe.SliceData(reqs))), len(reqs))
}

// overlap tells whether a and b share memory.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	p, q := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}

// sameStart tells whether a and b begin at the same byte.
func sameStart(a, b []byte) bool {
	return len(a) != 0 && len(b) != 0 && unsafe.SliceData(a) == unsafe.SliceData(b)
}

// lastWord is the last word of a segment, whose length is a multiple of eight.
func lastWord(b []byte) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(b[len(b)-8:])))
}
