package verbstest

// Unsafe because requests name memory by its address, as they do to a device.

import "unsafe"

// memoryAt returns the registered memory at an address. The code that registered it must keep it reachable.
func memoryAt(addr uint64, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}
