package pmix

// Unsafe because the library returns addresses of its own memory, which stays until it is freed here, and takes addresses of Go
// memory, which does not move and is kept alive during the call.

import (
	"bytes"
	"runtime"
	"unsafe"

	abi "github.com/ibrun/ibrun/internal/abi/pmix"
)

// pointer returns an address of C's memory as a pointer.
func pointer(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// valueAt returns a copy of the value at an address of C's memory.
func valueAt(addr uintptr) abi.Value { return *(*abi.Value)(pointer(addr)) }

// bytesAt returns a copy of n bytes of C's memory.
func bytesAt(addr uintptr, n uint64) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(pointer(addr)), n))
}

// stringAt returns a copy of a string of C, without its terminating zero. It is empty if the address is 0.
func stringAt(addr uintptr) []byte {
	if addr == 0 {
		return nil
	}
	n := uint64(0)
	for *(*byte)(unsafe.Add(pointer(addr), n)) != 0 {
		n++
	}
	return bytesAt(addr, n)
}

// putBytes puts a byte object, which the library copies. It returns the status.
func (l *library) putBytes(key string, b []byte) int32 {
	v := &abi.Value{Type: abi.TypeByteObject, Bytes: uintptr(unsafe.Pointer(unsafe.SliceData(b))), Size: uint64(len(b))}
	status := l.put(abi.ScopeGlobal, key, v)
	runtime.KeepAlive(b)
	return status
}
