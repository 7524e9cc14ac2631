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

// Datagrams between the peers of a node. Most only wake; some carry the descriptor of a segment:
//
//	'W'
//	'S'  id (8 bytes)  token (32 bytes)  and one descriptor, or none if the segment could not be made
const (
	wakeByte        = 'W'
	segmentByte     = 'S'
	descriptorBytes = 1 + 8 + auth.MACBytes
)

// credentialBytes is what the kernel adds to each datagram: who sent it.
var credentialBytes = unix.CmsgSpace(unix.SizeofUcred)

// socket is a peer's datagram socket.
type socket struct {
	fd    int
	key   [32]byte
	token [auth.MACBytes]byte
	held  map[uint64]int // descriptors of segments that came before they were asked for; none: it could not be made
	buf   [64]byte
	oob   [128]byte
	iov   unix.Iovec
	msg   unix.Msghdr
}

func derive(key [32]byte, what string, n uint64) [auth.MACBytes]byte {
	return [auth.MACBytes]byte(auth.Key(key).MAC(what, binary.LittleEndian.AppendUint64(nil, n)))
}

// address is the abstract name of a peer's socket. Other users can see it, but learn nothing from it.
func address(key [32]byte, peer int) *unix.SockaddrUnix {
	sum := derive(key, "socket", uint64(peer))
	return &unix.SockaddrUnix{Name: "@ibrun-" + hex.EncodeToString(sum[:16])}
}

func bind(key [32]byte, peer int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &socket{fd: fd, key: key, token: derive(key, "segment", 0), held: map[uint64]int{}}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return nil, errors.Join(os.NewSyscallError("setsockopt SO_PASSCRED", err), s.close())
	}
	if err := unix.Bind(fd, address(key, peer)); err != nil {
		return nil, errors.Join(fmt.Errorf("shm: bind the socket of peer %d (is it open twice?): %w", peer, err), s.close())
	}
	return s, nil
}

func (s *socket) close() error {
	for _, fd := range s.held {
		drop(fd)
	}
	return os.NewSyscallError("close", unix.Close(s.fd))
}

// none stands for a descriptor where there is none.
const none = -1

// drop closes a descriptor that came and is not wanted. It was never used, so there is nothing to lose.
func drop(fd int) {
	if fd != none {
		_ = unix.Close(fd)
	}
}

// wake makes the peer's socket readable. A full queue is as good: the peer has not read what is there.
func (s *socket) wake(to *unix.SockaddrUnix) {
	// Whoever has closed its socket needs no waking, and its end is learnt elsewhere.
	_ = unix.Sendto(s.fd, []byte{wakeByte}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, to)
}

// sendSegment passes a descriptor to a peer, or tells that there is none. It reports false if the peer cannot take
// it now.
func (s *socket) sendSegment(to *unix.SockaddrUnix, id uint64, fd int) (bool, error) {
	msg := make([]byte, 0, descriptorBytes)
	msg = append(msg, segmentByte)
	msg = binary.LittleEndian.AppendUint64(msg, id)
	msg = append(msg, s.token[:]...)
	var rights []byte
	if fd != none {
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

// drain takes all datagrams that wait, and holds the descriptors that came with them.
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
			continue // a wake, and no descriptor with it
		}
		s.hold(s.buf[:n], s.oob[:oobn])
	}
}

// hold keeps the descriptor that came with a datagram, if it is one of ours.
func (s *socket) hold(msg, oob []byte) {
	fd, mine := ancillary(oob)
	if !mine || len(msg) != descriptorBytes || msg[0] != segmentByte || !auth.Equal(msg[9:], s.token[:]) {
		drop(fd) // a stranger's
		return
	}
	id := binary.LittleEndian.Uint64(msg[1:])
	if old, ok := s.held[id]; ok {
		drop(old)
	}
	s.held[id] = fd
}

// take returns the segment with this id if it has come, and an error if it could not be made.
func (s *socket) take(id uint64) (fd int, ok bool, err error) {
	if err := s.drain(); err != nil {
		return none, false, err
	}
	return s.release(id)
}

// release is take of what was held already.
func (s *socket) release(id uint64) (fd int, ok bool, err error) {
	fd, ok = s.held[id]
	delete(s.held, id)
	if ok && fd == none {
		return none, false, errNotMade
	}
	return fd, ok, nil
}

var errNotMade = errors.New("shm: the first peer could not make the segment")

// ancillary returns the descriptor that came along, if any, and whether the kernel vouches for a sender of our
// own user.
func ancillary(oob []byte) (fd int, mine bool) {
	fd = none
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return none, false
	}
	for i := range msgs {
		if fds, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			for _, f := range fds {
				drop(fd) // nobody of ours sends two
				fd = f
			}
		}
		if cred, err := unix.ParseUnixCredentials(&msgs[i]); err == nil {
			mine = int(cred.Uid) == os.Getuid() || int(cred.Uid) == os.Geteuid()
		}
	}
	return fd, mine
}

// await waits for the segment with this id. It is for set-up, where nothing else is going on.
func (s *socket) await(ctx context.Context, id uint64) (int, error) {
	for {
		if fd, ok, err := s.take(id); ok || err != nil {
			return fd, err
		}
		if err := pollUntil(ctx, s.fd); err != nil {
			return none, fmt.Errorf("shm: wait for the segment of this node: %w", err)
		}
	}
}

// pollUntil waits until fd is readable. It looks at ctx now and then.
func pollUntil(ctx context.Context, fd int) error {
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
