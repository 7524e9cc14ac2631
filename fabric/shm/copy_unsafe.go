//go:build linux

package shm

// Unsafe because process_vm_readv and process_vm_writev take addresses, ours and the peer's. Ours are kept alive by the
// slices in the caller's hands until the call has returned; the peer's are checked by the kernel against its mappings.

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// briefly is the size below which a copy is so short that telling the scheduler about the system call costs more than
// it could gain.
const briefly = 128 << 10

// moveMemory copies len(b) bytes between b and the memory of the process pid at addr.
func moveMemory(trap uintptr, pid int, b []byte, addr uint64) error {
	for len(b) > 0 {
		local := unix.Iovec{Base: unsafe.SliceData(b), Len: uint64(len(b))}
		remote := unix.RemoteIovec{Base: uintptr(addr), Len: len(b)}
		var n uintptr
		var errno unix.Errno
		if len(b) <= briefly {
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
			return moveError(errno)
		}
		if n == 0 || n > uintptr(len(b)) {
			return fmt.Errorf("shm: the kernel moved %d of %d bytes", n, len(b))
		}
		b, addr = b[n:], addr+uint64(n)
	}
	return nil
}

func moveError(errno unix.Errno) error {
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
