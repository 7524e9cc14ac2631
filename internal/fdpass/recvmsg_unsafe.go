//go:build linux

package fdpass

// Unsafe because recvmsg takes a structure of addresses. It is part of the Receiver, so that reading a message that wakes a
// process, which happens after every sleep, allocates nothing.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// recvmsg reads one message into buf, and its control messages into oob.
func (r *Receiver) recvmsg(fd int, buf []byte) (int, unix.Errno) {
	r.iov.Base = unsafe.SliceData(buf)
	r.iov.SetLen(len(buf))
	r.msg = unix.Msghdr{Iov: &r.iov, Control: &r.oob[0]}
	r.msg.SetIovlen(1)
	r.msg.SetControllen(len(r.oob))
	n, errno := uintptr(0), unix.EINTR
	for errno == unix.EINTR {
		n, _, errno = unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.msg)),
			unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	}
	r.iov.Base = nil
	return int(n), errno
}
