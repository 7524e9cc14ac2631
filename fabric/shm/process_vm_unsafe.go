//go:build linux

package shm

// Unsafe because process_vm_readv and process_vm_writev take addresses, ours and the peer's. The caller's slices keep our
// memory alive until the call has returned; the kernel checks the peer's addresses against its mappings.

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// rawSyscallBytes is the length up to which a copy is so short that notifying the scheduler of the system call costs more than it
// could gain.
const rawSyscallBytes = 128 << 10

// copyProcessMemory copies len(b) bytes between b and the memory of the process pid at addr. trap is the number of the system
// call: process_vm_readv or process_vm_writev.
func copyProcessMemory(trap uintptr, pid int, b []byte, addr uint64) error {
	for len(b) > 0 {
		local := unix.Iovec{Base: unsafe.SliceData(b), Len: uint64(len(b))}
		remote := unix.RemoteIovec{Base: uintptr(addr), Len: len(b)}
		var n uintptr
		var errno unix.Errno
		if len(b) <= rawSyscallBytes {
			n, _, errno = unix.RawSyscall6(trap, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1,
				uintptr(unsafe.Pointer(&remote)), 1, 0)
		} else {
			n, _, errno = unix.Syscall6(trap, uintptr(pid), uintptr(unsafe.Pointer(&local)), 1,
				uintptr(unsafe.Pointer(&remote)), 1, 0)
		}
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return copyError(errno)
		}
		if n == 0 || n > uintptr(len(b)) {
			return fmt.Errorf("shm: copy between processes: the kernel copied %d of %d bytes", n, len(b))
		}
		b, addr = b[n:], addr+uint64(n)
	}
	return nil
}

// copyError wraps an error of process_vm_readv or process_vm_writev.
func copyError(errno unix.Errno) error {
	switch {
	case errors.Is(errno, unix.EPERM), errors.Is(errno, unix.ENOSYS):
		return fmt.Errorf("%w: copying between processes needs the permission to trace the peer "+
			"(same user, dumpable, kernel.yama.ptrace_scope up to 1, no seccomp rule against process_vm_readv): %w",
			fabric.ErrNotSupported, errno)
	case errors.Is(errno, unix.ESRCH):
		return fmt.Errorf("%w: %w", fabric.ErrPeerDown, errno)
	}
	return fmt.Errorf("shm: copy between processes: %w", errno)
}
