package verbstest

// Unsafe because requests name memory by its address, as they do to a device.

import "unsafe"

// memoryAt is memory that was registered, by its address. Whoever registered it keeps it.
func memoryAt(addr uint64, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}
