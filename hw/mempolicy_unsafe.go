//go:build linux

package hw

// This file uses unsafe because the kernel writes the policy to an address and golang.org/x/sys has no function for the call.

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// HasMemoryPolicy reports whether the calling thread has a memory policy other than the kernel's default, for example
// one that numactl set for the program that it started.
func HasMemoryPolicy() (bool, error) {
	var mode int32
	if _, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), 0, 0, 0, 0, 0); errno != 0 {
		return false, fmt.Errorf("hw: read memory policy: %w", errno)
	}
	return mode != unix.MPOL_DEFAULT, nil
}
