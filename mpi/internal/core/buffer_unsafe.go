package core

// This file uses unsafe because messages are bytes: it converts slices of elements to slices of
// bytes in the same memory. It also compares addresses, and converts memory that ranks share.

import (
	"unsafe"

	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// Bytes returns the memory of x as bytes. The elements must be plain numbers, of which all byte
// values are valid.
func Bytes[T any](x []T) []byte {
	var t T
	size := int(unsafe.Sizeof(t))
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), cap(x)*size)[:len(x)*size]
}

// IsPlain reports whether a call on c with elements of type T takes the shortest path, which moves
// bytes: T is a number or bool, and calls are not checked. For the most frequent types it calls no
// other function.
func IsPlain[T any](c *Comm) bool {
	if c != nil && c.checks {
		return false
	}
	var x T
	var known bool
	switch p := any((*T)(nil)); unsafe.Sizeof(x) { // a constant in each instance
	case 1:
		_, known = p.(*byte)
	case 4:
		if _, known = p.(*float32); !known {
			_, known = p.(*int32)
		}
	case 8:
		if _, known = p.(*float64); !known {
			_, known = p.(*int)
		}
	}
	return known || IsNumber[T]()
}

// handlesOf returns the memory of reqs as handles of the engine. A Request contains a handle and
// nothing else.
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

// sharedWords returns what begins the first words of a segment, and the last of them. Their length
// must be a multiple of eight.
func sharedWords(b []byte) (*mismatchRecord, *uint64) {
	_ = b[unsafe.Sizeof(mismatchRecord{})+8-1]
	return (*mismatchRecord)(unsafe.Pointer(unsafe.SliceData(b))), (*uint64)(unsafe.Pointer(unsafe.SliceData(b[len(b)-8:])))
}
