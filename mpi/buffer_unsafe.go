package mpi

// This file uses unsafe because user-defined operations get slices of elements, but package core has bytes, and because the
// requests and statuses of core are those of this package under other names.

import (
	"reflect"
	"unsafe"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// Elem lists the element types of messages: numbers, bool, and types derived from them. MPI-5.0 §3.2.2.
type Elem interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~uintptr |
		~float32 | ~float64 | ~complex64 | ~complex128 | ~bool
}

// elementsOf returns the memory of b as elements, which have no pointers. The memory is aligned for them.
func elementsOf[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/sizeOf[T]())
}

// sizeOf returns the size of an element in bytes.
func sizeOf[T any]() int {
	var t T
	return int(unsafe.Sizeof(t))
}

// sliceMemory returns the memory of a slice, whose elements have no pointers, as bytes.
func sliceMemory(x reflect.Value) []byte {
	return unsafe.Slice((*byte)(x.UnsafePointer()), x.Len()*int(x.Type().Elem().Size()))
}

// coreRequests returns the memory of reqs as requests of core, which have the same type under another name.
func coreRequests(reqs []Request) []core.Request {
	return unsafe.Slice((*core.Request)(unsafe.Pointer(unsafe.SliceData(reqs))), len(reqs))
}

// coreStatuses returns the memory of sts as statuses of core, which have the same fields. It is nil for nil.
func coreStatuses(sts []Status) []core.Status {
	return unsafe.Slice((*core.Status)(unsafe.Pointer(unsafe.SliceData(sts))), len(sts))
}

// The fields of Status are at the places of those of core.Status: each of these arrays has the length 0.
var (
	_ [unsafe.Sizeof(Status{}) - unsafe.Sizeof(core.Status{})]byte
	_ [unsafe.Offsetof(Status{}.Source) - unsafe.Offsetof(core.Status{}.Source)]byte
	_ [unsafe.Offsetof(Status{}.Tag) - unsafe.Offsetof(core.Status{}.Tag)]byte
	_ [unsafe.Offsetof(Status{}.bytes) - unsafe.Offsetof(core.Status{}.Bytes)]byte
	_ [unsafe.Offsetof(Status{}.cancelled) - unsafe.Offsetof(core.Status{}.Cancelled)]byte
)
