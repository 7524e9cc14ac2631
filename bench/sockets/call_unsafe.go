//go:build linux

package sockets

// Unsafe because the kernel is handed the addresses of buffers without telling the scheduler, which would cost as much as a
// twentieth of what is measured. No call waits. The buffers are the caller's slices.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func send(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	return moved(n, errno)
}

func receive(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_DONTWAIT, 0, 0)
	return moved(n, errno)
}

// moved is how many bytes a call has moved. One that a signal interrupted has moved none, like one that found nothing to do.
func moved(n uintptr, errno unix.Errno) (int, unix.Errno) {
	switch errno {
	case 0:
		return int(n), 0
	case unix.EINTR:
		return 0, unix.EAGAIN
	}
	return 0, errno
}
