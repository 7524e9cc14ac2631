//go:build linux

package shm

// Unsafe because recvmsg takes a structure of addresses. It is part of the socket, with the buffers it points to, so that
// reading the datagrams that wake a peer, which happens after every sleep, allocates nothing.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// receive reads one datagram into buf, and its control messages into oob.
func (s *socket) receive() (n, oobn int, errno unix.Errno) {
	s.iov.Base = &s.buf[0]
	s.iov.SetLen(len(s.buf))
	s.msg = unix.Msghdr{Iov: &s.iov, Control: &s.oob[0]}
	s.msg.SetIovlen(1)
	s.msg.SetControllen(len(s.oob))
	got, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.msg)),
		unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if errno != 0 {
		return 0, 0, errno
	}
	return int(got), int(s.msg.Controllen), 0
}
