package shm

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/auth"
)

// Datagrams between the peers of a node. Most only wake the receiver; some carry the descriptor of a segment:
//
//	'W'
//	'S'  id (8 bytes)  token (32 bytes)  and one descriptor, or none if the segment could not be created
const (
	wakeByte        = 'W'
	segmentByte     = 'S'
	descriptorBytes = 1 + 8 + auth.MACBytes
)

// credentialBytes is the length of the control message that the kernel adds to each datagram, with the sender's credentials.
var credentialBytes = unix.CmsgSpace(unix.SizeofUcred)

// socket is a peer's datagram socket.
type socket struct {
	fd          int
	key         [32]byte
	token       [auth.MACBytes]byte // authenticates the datagrams with descriptors
	descriptors map[uint64]int      // of segments that arrived before they were asked for, by id; noFD: it could not be created
	buf         [64]byte
	oob         [128]byte
	iov         unix.Iovec // iov and msg are memory for recvmsg
	msg         unix.Msghdr
}

// derive returns a MAC of what and n with the job's key.
func derive(key [32]byte, what string, n uint64) [auth.MACBytes]byte {
	return [auth.MACBytes]byte(auth.Key(key).MAC(what, binary.LittleEndian.AppendUint64(nil, n)))
}

// socketAddress returns the abstract name of a peer's socket. Other users can see it, but learn nothing from it.
func socketAddress(key [32]byte, peer int) *unix.SockaddrUnix {
	sum := derive(key, "socket", uint64(peer))
	return &unix.SockaddrUnix{Name: "@ibrun-" + hex.EncodeToString(sum[:16])}
}

// bind opens the socket of a peer.
func bind(key [32]byte, peer int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &socket{fd: fd, key: key, token: derive(key, "segment", 0), descriptors: map[uint64]int{}}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return nil, errors.Join(os.NewSyscallError("setsockopt SO_PASSCRED", err), s.close())
	}
	if err := unix.Bind(fd, socketAddress(key, peer)); err != nil {
		return nil, errors.Join(fmt.Errorf("shm: bind the socket of peer %d (is it open twice?): %w", peer, err), s.close())
	}
	return s, nil
}

func (s *socket) close() error {
	for _, fd := range s.descriptors {
		closeUnused(fd)
	}
	return os.NewSyscallError("close", unix.Close(s.fd))
}

// noFD is used in place of a descriptor that does not exist.
const noFD = -1

// closeUnused closes a descriptor that was received and is not needed. It was never used, so an error does not matter.
func closeUnused(fd int) {
	if fd != noFD {
		_ = unix.Close(fd)
	}
}

// wake makes the peer's socket readable. If the socket's queue is full it is readable already.
func (s *socket) wake(to *unix.SockaddrUnix) {
	// An error is ignored: a peer that has closed its socket does not sleep, and its end is reported otherwise.
	_ = unix.Sendto(s.fd, []byte{wakeByte}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, to)
}

// sendSegment passes a descriptor to a peer, or notifies it that there is none. It returns false if the peer cannot receive it
// now.
func (s *socket) sendSegment(to *unix.SockaddrUnix, id uint64, fd int) (bool, error) {
	msg := make([]byte, 0, descriptorBytes)
	msg = append(msg, segmentByte)
	msg = binary.LittleEndian.AppendUint64(msg, id)
	msg = append(msg, s.token[:]...)
	var rights []byte
	if fd != noFD {
		rights = unix.UnixRights(fd)
	}
	err := unix.Sendmsg(s.fd, msg, rights, to, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EINTR):
		return false, nil
	}
	return false, os.NewSyscallError("sendmsg", err)
}

// drain reads all datagrams that have arrived, and keeps the descriptors that came with them.
func (s *socket) drain() error {
	for {
		n, oobn, errno := s.receive()
		switch errno {
		case 0:
		case unix.EAGAIN:
			return nil
		case unix.EINTR:
			continue
		default:
			return os.NewSyscallError("recvmsg", errno)
		}
		if n == 1 && oobn <= credentialBytes {
			continue // a wake-up without a descriptor
		}
		s.keepDescriptor(s.buf[:n], s.oob[:oobn])
	}
}

// keepDescriptor keeps the descriptor that came with a datagram, if a peer has sent it.
func (s *socket) keepDescriptor(msg, oob []byte) {
	fd, sameUser := ancillaryDescriptor(oob)
	if !sameUser || len(msg) != descriptorBytes || msg[0] != segmentByte || !auth.Equal(msg[9:], s.token[:]) {
		closeUnused(fd) // not from a peer
		return
	}
	id := binary.LittleEndian.Uint64(msg[1:])
	if old, ok := s.descriptors[id]; ok {
		closeUnused(old)
	}
	s.descriptors[id] = fd
}

// takeSegment returns the segment with this id if it has arrived, and an error if it could not be created.
func (s *socket) takeSegment(id uint64) (fd int, ok bool, err error) {
	if err := s.drain(); err != nil {
		return noFD, false, err
	}
	return s.takeReceived(id)
}

// takeReceived is takeSegment without reading datagrams.
func (s *socket) takeReceived(id uint64) (fd int, ok bool, err error) {
	fd, ok = s.descriptors[id]
	delete(s.descriptors, id)
	if ok && fd == noFD {
		return noFD, false, errNotCreated
	}
	return fd, ok, nil
}

var errNotCreated = errors.New("shm: the first peer could not create the segment")

// ancillaryDescriptor returns the descriptor in a datagram's control messages, if any, and whether the kernel says that the
// sender has our user id.
func ancillaryDescriptor(oob []byte) (fd int, sameUser bool) {
	fd = noFD
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return noFD, false
	}
	for i := range msgs {
		if fds, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			for _, f := range fds {
				closeUnused(fd) // no peer sends two
				fd = f
			}
		}
		if cred, err := unix.ParseUnixCredentials(&msgs[i]); err == nil {
			sameUser = int(cred.Uid) == os.Getuid() || int(cred.Uid) == os.Geteuid()
		}
	}
	return fd, sameUser
}

// awaitSegment waits for the segment with this id. It is for set-up, when nothing else is going on.
func (s *socket) awaitSegment(ctx context.Context, id uint64) (int, error) {
	for {
		if fd, ok, err := s.takeSegment(id); ok || err != nil {
			return fd, err
		}
		if err := waitReadable(ctx, s.fd); err != nil {
			return noFD, fmt.Errorf("shm: wait for the segment of this node: %w", err)
		}
	}
}

// waitReadable waits until fd is readable. It checks ctx every 100 ms.
func waitReadable(ctx context.Context, fd int) error {
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 100)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
	}
}
