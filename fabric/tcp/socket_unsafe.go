//go:build linux

package tcp

// Unsafe because system calls take addresses of several buffers, and because these calls do not notify the scheduler, which
// would cost as much as a tenth of them. None of them blocks, and none moves more than some MiB. The buffers are the
// caller's slices; the vectors with their addresses are on this stack until the call has returned.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// result converts what a system call returned. A call interrupted by a signal has moved nothing, so it is reported as EAGAIN.
func result(n uintptr, errno unix.Errno) (int, unix.Errno) {
	if errno == unix.EINTR {
		errno = unix.EAGAIN
	}
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// send sends the beginning of b, as much as the kernel takes.
func send(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	return result(n, errno)
}

// maxParts is the number of slices that one call sends at most.
const maxParts = 5

// sendParts sends the beginning of the parts together, as much as the kernel takes. If more is true, the kernel may delay the end
// until more is sent.
func sendParts(fd int, parts *[maxParts][]byte, more bool) (int, unix.Errno) {
	var vector [maxParts]unix.Iovec
	k := 0
	for _, p := range parts {
		if len(p) != 0 {
			vector[k].Base = unsafe.SliceData(p)
			vector[k].SetLen(len(p))
			k++
		}
	}
	msg := unix.Msghdr{Iov: &vector[0]}
	msg.SetIovlen(k)
	flags := uintptr(unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT)
	if more {
		flags |= unix.MSG_MORE
	}
	n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), flags)
	return result(n, errno)
}

// receive fills the beginning of b with what has arrived.
func receive(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_DONTWAIT, 0, 0)
	return result(n, errno)
}

// receiveParts fills a, then b, with what has arrived. Neither is empty.
func receiveParts(fd int, a, b []byte) (int, unix.Errno) {
	parts := [2]unix.Iovec{{Base: unsafe.SliceData(a)}, {Base: unsafe.SliceData(b)}}
	parts[0].SetLen(len(a))
	parts[1].SetLen(len(b))
	n, _, errno := unix.RawSyscall(unix.SYS_READV, uintptr(fd), uintptr(unsafe.Pointer(&parts[0])), 2)
	return result(n, errno)
}

// epollWait returns pending events of an epoll descriptor, without blocking.
func epollWait(epoll int, evs []unix.EpollEvent) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(evs))),
		uintptr(len(evs)), 0, 0, 0)
	return result(n, errno)
}
