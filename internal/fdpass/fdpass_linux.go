package fdpass

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Max is the largest number of descriptors in a message.
const Max = 32

var (
	// ErrTruncated means that the descriptors of a message could not be received.
	ErrTruncated = errors.New("descriptors of a message could not be received; " +
		"the limit of open files may be too small (ulimit -n)")
	// ErrUnexpected means that a received descriptor is not what it should be.
	ErrUnexpected = errors.New("received an unexpected descriptor")
)

// Send sends one message over a connected socket, with descriptors. The caller still owns them. Send does not block: the error is
// unix.EAGAIN, not wrapped, if the receiver has to read first. It wraps unix.ETOOMANYREFS if receivers of this user have to read
// first: without privileges the kernel lets no more descriptors of a user be on their way than the sender may have open files.
func Send(fd int, msg []byte, fds ...int) error {
	if len(fds) > Max {
		return fmt.Errorf("send %d descriptors in one message: the limit is %d", len(fds), Max)
	}
	var rights []byte
	if len(fds) != 0 {
		rights = unix.UnixRights(fds...)
	}
	for {
		err := unix.Sendmsg(fd, msg, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err == unix.EAGAIN {
			return err
		}
		if err != unix.EINTR {
			return os.NewSyscallError("sendmsg", err)
		}
	}
}

// Receiver receives messages. It has the memory that recvmsg needs, so receiving a message without descriptors allocates nothing.
type Receiver struct {
	iov unix.Iovec
	msg unix.Msghdr
	oob [oobBytes]byte
}

// oobBytes has room for the descriptors of a message, and for the credentials that a socket with SO_PASSCRED adds.
const oobBytes = 16 + 4*Max + 64

// Receive reads one message into buf, which is not empty. It returns the message's length and its descriptors, which are
// close-on-exec and owned by the caller. If the kernel could not pass all of them, it discards the others and returns
// [ErrTruncated]. Receive does not block: the error is unix.EAGAIN, not wrapped, if there is no message. It returns neither a
// length nor descriptors nor an error if the other end was closed and all of its messages have been received.
//
// A socket of type SOCK_SEQPACKET needs two calls of recvmsg at its end. The kernel first looks for a message, and then whether
// the other end was closed (net/unix/af_unix.c, __unix_dgram_recvmsg). If the other end sends a message and closes between the
// two, recvmsg returns 0 although there is a message. The second call returns the message. If it returns 0 too, there is none,
// because nothing can be sent any more. Code that reads such a socket without a Receiver must also call twice.
func (r *Receiver) Receive(fd int, buf []byte) (n int, fds []int, err error) {
	n, errno := r.recvmsg(fd, buf)
	if n == 0 && errno == 0 && r.msg.Controllen == 0 {
		n, errno = r.recvmsg(fd, buf)
	}
	switch {
	case errno == unix.EAGAIN:
		return 0, nil, unix.EAGAIN
	case errno != 0:
		return 0, nil, os.NewSyscallError("recvmsg", errno)
	}
	if r.msg.Controllen != 0 {
		fds, err = parse(r.oob[:r.msg.Controllen])
	}
	if r.msg.Flags&unix.MSG_CTRUNC != 0 {
		err = ErrTruncated
	}
	if err != nil {
		Discard(fds...)
		return n, nil, err
	}
	return n, fds, nil
}

// parse returns the descriptors in control messages, also if there is an error.
func parse(oob []byte) (fds []int, err error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnexpected, err)
	}
	for i := range msgs {
		if h := msgs[i].Header; h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_RIGHTS {
			continue
		}
		if len(msgs[i].Data)%4 != 0 { // ParseUnixRights would panic
			err = errors.Join(err, fmt.Errorf("%w: descriptors in %d bytes", ErrUnexpected, len(msgs[i].Data)))
			continue
		}
		got, errRights := unix.ParseUnixRights(&msgs[i])
		fds, err = append(fds, got...), errors.Join(err, errRights)
	}
	return fds, err
}

// Discard closes foreign descriptors without blocking. It accepts negative numbers, which name none.
func Discard(fds ...int) {
	for _, fd := range fds {
		if fd < 0 {
			continue
		}
		if closesAtOnce(fd) {
			_ = unix.Close(fd) // it was never used, so an error does not matter
		} else {
			go func() { _ = unix.Close(fd) }()
		}
	}
}

// closesAtOnce reports whether closing fd cannot block. It clears SO_LINGER, which makes the close of a socket wait.
func closesAtOnce(fd int) bool {
	if _, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err == nil {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{}) == nil
	}
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.TMPFS_MAGIC
}

// CheckUnixSocket returns an error unless fd is a Unix socket of this type, such as unix.SOCK_SEQPACKET.
func CheckUnixSocket(fd, kind int) error {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_UNIX {
		return fmt.Errorf("%w: descriptor %d is not a Unix socket", ErrUnexpected, fd)
	}
	if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || got != kind {
		return fmt.Errorf("%w: descriptor %d is a Unix socket of type %d instead of %d", ErrUnexpected, fd, got, kind)
	}
	return nil
}
