package ranklink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/fdpass"
)

// infoTimeout bounds the wait for RankInfo. The agent has sent it before the rank runs, so only a program that has received it
// between checkFirstPacket and this one's Recv makes it wait. It is much longer than a crowded machine may stop this process for
// between the two: otherwise that would look the same.
const infoTimeout = 15 * time.Second

// Link is one end of the connection between agent and rank. Any goroutine may call Send and Close at any time. Only one
// goroutine at a time may call Recv.
type Link struct {
	file *os.File
}

// Pair returns both ends of a new link. The agent keeps the first and sends [RankInfo] on it. It passes rankEnd to the rank as
// one of os/exec's ExtraFiles, and closes it after the rank was started. Both are closed on exec.
func Pair() (agent *Link, rankEnd *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("ranklink: make a socket pair: %w", err)
	}
	if agent, err = newLink(fds[0], "agent end"); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, err
	}
	return agent, os.NewFile(uintptr(fds[1]), "rank end"), nil
}

// FromEnv opens the link that this process has inherited, and receives [RankInfo]. All results are nil if IBRUN_FD is not set.
// FromEnv marks the descriptor close-on-exec, so that child processes do not inherit it. It may be called only once in a
// process.
func FromEnv(getenv func(string) string) (*Link, *RankInfo, error) {
	text := getenv("IBRUN_FD")
	if text == "" {
		return nil, nil, nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 0 {
		return nil, nil, fmt.Errorf("ranklink: IBRUN_FD=%q is not a file descriptor", text)
	}
	if err := fdpass.CheckUnixSocket(fd, unix.SOCK_SEQPACKET); err != nil {
		return nil, nil, fmt.Errorf("ranklink: IBRUN_FD=%d is not the socket that ibrun made. A program between ibrun and "+
			"this one has closed it. A program that is started by a rank needs IBRUN_FD unset", fd)
	}
	if err := checkFirstPacket(fd); err != nil {
		return nil, nil, err
	}
	unix.CloseOnExec(fd)
	link, err := newLink(fd, "IBRUN_FD")
	if err != nil {
		return nil, nil, err
	}
	info, err := link.receiveInfo()
	if err != nil {
		link.Close()
		return nil, nil, err
	}
	return link, info, nil
}

// checkFirstPacket returns an error if this program cannot understand the first packet, or if another program has received it.
// The agent has sent it before the rank was started, so there is nothing to wait for.
func checkFirstPacket(fd int) error {
	var head [headerBytes]byte
	n, _, err := unix.Recvfrom(fd, head[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch kind := Kind(head[0]); {
	case err == unix.EAGAIN:
		return ErrTaken
	case n != headerBytes:
		return nil // the error is that of receiveInfo
	case head[1] != version: // of any kind: another version may have other kinds
		return fmt.Errorf("%w: ibrun speaks version %d, and this program version %d", ErrVersion, head[1], version)
	case kind.followsInfo():
		return ErrTaken
	case kind != KindRankInfo: // Recv would pass over it, and wait for the next one
		return fmt.Errorf("%w: ibrun's first message has kind %d", ErrMalformed, kind)
	}
	return nil
}

// newLink returns a link that owns fd. If it fails, fd stays open.
func newLink(fd int, name string) (*Link, error) {
	// The runtime's poller only supports non-blocking descriptors. Without it Close does not end a Recv that waits.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("ranklink: make descriptor %d non-blocking: %w", fd, err)
	}
	return &Link{file: os.NewFile(uintptr(fd), name)}, nil
}

func (l *Link) receiveInfo() (*RankInfo, error) {
	ctx, cancel := context.WithTimeout(context.Background(), infoTimeout)
	defer cancel()
	m, err := l.Recv(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, ErrTaken
	}
	if err != nil {
		return nil, fmt.Errorf("ranklink: receive ibrun's first message: %w", err)
	}
	if m.Kind != KindRankInfo {
		return nil, fmt.Errorf("%w: the first message has kind %d", ErrMalformed, m.Kind)
	}
	info := new(RankInfo)
	if err := m.Decode(info); err != nil {
		return nil, err
	}
	return info, info.check()
}

// Send sends one message. v is the body that belongs to kind, or nil if kind has none. Send blocks while about 200 KB of
// earlier messages have not been received.
func (l *Link) Send(kind Kind, v any) error {
	packet, err := encode(kind, v)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(packet); err != nil {
		return fmt.Errorf("ranklink: send a message of kind %d: %w", kind, err)
	}
	return nil
}

// TrySend is Send without waiting, also for another call of Send that waits. sent is false if earlier messages must be received
// first.
func (l *Link) TrySend(kind Kind, v any) (sent bool, err error) {
	packet, err := encode(kind, v)
	if err != nil {
		return false, err
	}
	conn, err := l.file.SyscallConn()
	if err != nil {
		return false, fmt.Errorf("ranklink: send a message of kind %d: %w", kind, err)
	}
	errControl := conn.Control(func(fd uintptr) {
		err = unix.Send(int(fd), packet, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	if err == unix.EAGAIN {
		return false, errControl
	}
	if err = errors.Join(errControl, err); err != nil {
		return false, fmt.Errorf("ranklink: send a message of kind %d: %w", kind, err)
	}
	return true, nil
}

// The kernel limits the number of descriptors of a user that are on their way. SendFiles tries again after refusedPause, for
// maxRefused times: the receivers usually read immediately, but a stopped process does not.
const (
	refusedPause = time.Millisecond
	maxRefused   = 2000
)

// SendFiles is Send for a message with descriptors, which the caller still owns. The error wraps unix.ETOOMANYREFS if the kernel
// has refused the descriptors for 2 seconds.
func (l *Link) SendFiles(kind Kind, v any, fds ...int) error {
	return l.sendFiles(kind, v, fds, func() { time.Sleep(refusedPause) })
}

// sendFiles is SendFiles. It calls pause before it tries again.
func (l *Link) sendFiles(kind Kind, v any, fds []int, pause func()) error {
	packet, err := encode(kind, v)
	if err != nil {
		return err
	}
	err = l.trySendFiles(packet, fds)
	for refused := 0; refused < maxRefused && errors.Is(err, unix.ETOOMANYREFS); refused++ {
		pause()
		err = l.trySendFiles(packet, fds)
	}
	if err != nil {
		return fmt.Errorf("ranklink: send a message of kind %d with %d descriptors: %w", kind, len(fds), err)
	}
	return nil
}

// trySendFiles sends a packet with descriptors. It blocks while the receiver has to read first.
func (l *Link) trySendFiles(packet []byte, fds []int) error {
	conn, err := l.file.SyscallConn()
	if err != nil {
		return err
	}
	errWait := conn.Write(func(fd uintptr) (done bool) {
		err = fdpass.Send(int(fd), packet, fds...)
		return err != unix.EAGAIN
	})
	return errors.Join(err, errWait)
}

// Discard closes the descriptors that came with the message.
func (m Message) Discard() { fdpass.Discard(m.Files...) }

// Recv returns the next message of a known kind. The error is io.EOF, not wrapped, after the other end was closed. It is
// [ErrMalformed] for an invalid packet; the next one can be received after that. If ctx ends first, Recv closes the link.
func (l *Link) Recv(ctx context.Context) (Message, error) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		packet, files, err := l.readPacket()
		if ctx.Err() != nil {
			fdpass.Discard(files...)
			return Message{}, fmt.Errorf("ranklink: receive: %w", context.Cause(ctx))
		}
		m, ok := Message{}, false
		if err == nil {
			m, ok, err = decode(packet)
		}
		if !ok || err != nil {
			fdpass.Discard(files...)
		}
		if m.Files = files; ok || err != nil {
			return m, err
		}
	}
}

// readPacket blocks until the next packet arrives, and returns it with its descriptors.
func (l *Link) readPacket() ([]byte, []int, error) {
	conn, err := l.file.SyscallConn()
	if err != nil {
		return nil, nil, fmt.Errorf("ranklink: receive: %w", err)
	}
	var packet []byte
	var files []int
	var readErr error
	err = conn.Read(func(fd uintptr) (done bool) {
		packet, files, readErr = receivePacket(int(fd))
		return readErr != unix.EAGAIN
	})
	if err != nil {
		readErr = os.ErrClosed // there is no deadline, so only Close ends the wait
	}
	if readErr != nil && readErr != io.EOF {
		readErr = fmt.Errorf("ranklink: receive: %w", readErr)
	}
	return packet, files, readErr
}

// Shutdown ends both directions, even if other processes have the other end open. Packets that have arrived can still be
// received. After them Recv returns [io.EOF]. Calls of Send and SendFiles that wait return an error.
func (l *Link) Shutdown() error {
	conn, err := l.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("ranklink: shut down: %w", err)
	}
	errControl := conn.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	if err = errors.Join(errControl, err); err != nil {
		return fmt.Errorf("ranklink: shut down: %w", err)
	}
	return nil
}

// Close closes this end. Calls that wait return an error. A second Close returns an error and has no effect.
func (l *Link) Close() error { return l.file.Close() }

// receivePacket reads one whole packet, or returns EAGAIN, or io.EOF after the other end was closed. It allocates only as much
// as the packet needs, because an agent has many links.
//
// Descriptors that cannot be received, because this process has too many open files, are missing in the result: the message
// says how many there should be.
func receivePacket(fd int) ([]byte, []int, error) {
	// With MSG_TRUNC the kernel returns the length of the packet, not that of the buffer.
	n, _, err := unix.Recvfrom(fd, nil, unix.MSG_PEEK|unix.MSG_TRUNC)
	// ECONNRESET: the other end was closed before it read all packets. The kernel reports that once, before the packets that it
	// has sent. A length of 0 may not be the end: see [fdpass.Receiver.Receive].
	for range 2 {
		if err == unix.ECONNRESET || err == nil && n == 0 {
			n, _, err = unix.Recvfrom(fd, nil, unix.MSG_PEEK|unix.MSG_TRUNC)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if n == 0 {
		return nil, nil, io.EOF
	}
	packet := make([]byte, min(n, MaxPacket+1))
	var r fdpass.Receiver
	n, files, err := r.Receive(fd, packet)
	if err != nil && !errors.Is(err, fdpass.ErrTruncated) {
		return nil, nil, err
	}
	return packet[:n], files, nil
}
