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
)

// helloTimeout bounds the wait for Hello, which the agent sends before the rank runs.
const helloTimeout = time.Minute

// Link is one end of the way between agent and rank. Any goroutine may call Send and Close at any time; Recv is
// called by one goroutine at a time.
type Link struct {
	file *os.File
}

// Pair makes both ends. The agent keeps the first and sends [Hello] on it; rankEnd is for os/exec's ExtraFiles, and the
// agent closes it once the rank has been started. Both are closed on exec.
func Pair() (agent *Link, rankEnd *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("job: make socket pair: %w", err)
	}
	if agent, err = newLink(fds[0], "agent end"); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, err
	}
	return agent, os.NewFile(uintptr(fds[1]), "rank end"), nil
}

// FromEnv opens the link this process inherited and waits for [Hello]. All results are nil if IBRUN_FD is not set. The
// descriptor is closed on exec from here on, so that children do not keep it. It may be called once in a process.
func FromEnv(getenv func(string) string) (*Link, *Hello, error) {
	text := getenv("IBRUN_FD")
	if text == "" {
		return nil, nil, nil
	}
	fd, err := strconv.Atoi(text)
	if err != nil || fd < 0 {
		return nil, nil, fmt.Errorf("job: IBRUN_FD=%q is not a descriptor", text)
	}
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return nil, nil, fmt.Errorf("job: IBRUN_FD=%d is not the socket ibrun made: a program between ibrun and this one "+
			"closed it; a program that a rank starts for itself needs IBRUN_FD unset", fd)
	}
	unix.CloseOnExec(fd)
	link, err := newLink(fd, "IBRUN_FD")
	if err != nil {
		return nil, nil, err
	}
	hello, err := link.hello()
	if err != nil {
		link.Close()
		return nil, nil, err
	}
	return link, hello, nil
}

// newLink takes over fd if it succeeds.
func newLink(fd int, name string) (*Link, error) {
	// Only a non-blocking descriptor is served by the runtime's poller, and only there does Close end a Recv that
	// waits.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("job: make descriptor %d non-blocking: %w", fd, err)
	}
	return &Link{file: os.NewFile(uintptr(fd), name)}, nil
}

func (l *Link) hello() (*Hello, error) {
	ctx, cancel := context.WithTimeout(context.Background(), helloTimeout)
	defer cancel()
	m, err := l.Recv(ctx)
	if err != nil {
		return nil, fmt.Errorf("job: wait for ibrun's first message: %w", err)
	}
	if m.Kind != KindHello {
		return nil, fmt.Errorf("%w: the first message is of kind %d", ErrMalformed, m.Kind)
	}
	hello := new(Hello)
	if err := m.Decode(hello); err != nil {
		return nil, err
	}
	return hello, hello.check()
}

// Send sends one message; v is the body that belongs to kind, or nil where there is none. It blocks while the
// receiver has not taken some 200 KB of earlier messages.
func (l *Link) Send(kind Kind, v any) error {
	packet, err := encode(kind, v)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(packet); err != nil {
		return fmt.Errorf("job: send message of kind %d: %w", kind, err)
	}
	return nil
}

// Recv returns the next message of a known kind. It returns io.EOF as it is when the other end was closed, and
// [ErrMalformed] for a packet that breaks the format, after which the next may be received. When ctx ends first,
// the link is closed.
func (l *Link) Recv(ctx context.Context) (Message, error) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		packet, err := l.packet()
		if ctx.Err() != nil {
			return Message{}, fmt.Errorf("job: receive: %w", context.Cause(ctx))
		}
		if err != nil {
			return Message{}, err
		}
		if m, ok, err := decode(packet); ok || err != nil {
			return m, err
		}
	}
}

// packet waits for the next packet.
func (l *Link) packet() ([]byte, error) {
	conn, err := l.file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("job: receive: %w", err)
	}
	var packet []byte
	var readErr error
	err = conn.Read(func(fd uintptr) (done bool) {
		packet, readErr = readPacket(int(fd))
		return readErr != unix.EAGAIN
	})
	if err != nil {
		readErr = os.ErrClosed // there is no deadline, so nothing else ends the wait
	}
	if readErr != nil && readErr != io.EOF {
		readErr = fmt.Errorf("job: receive: %w", readErr)
	}
	return packet, readErr
}

// CloseRead ends what comes in, even if others hold the other end: what has come can still be received, and then there is
// [io.EOF].
func (l *Link) CloseRead() error {
	conn, err := l.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("job: end receiving: %w", err)
	}
	errControl := conn.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_RD) })
	if err = errors.Join(errControl, err); err != nil {
		return fmt.Errorf("job: end receiving: %w", err)
	}
	return nil
}

// Close closes this end. It ends calls that wait. Closing twice is an error and otherwise harmless.
func (l *Link) Close() error { return l.file.Close() }

// readPacket reads one whole packet, or returns EAGAIN; io.EOF when the other end was closed. It allocates as much
// as the packet needs, not as much as a packet may have, since an agent waits on many links.
func readPacket(fd int) ([]byte, error) {
	// MSG_TRUNC makes the kernel tell the length of the packet instead of that of the buffer.
	n, _, err := unix.Recvfrom(fd, nil, unix.MSG_PEEK|unix.MSG_TRUNC)
	if err == unix.ECONNRESET {
		// The other end was closed without reading all it was sent. That is told once, before what it has sent itself.
		n, _, err = unix.Recvfrom(fd, nil, unix.MSG_PEEK|unix.MSG_TRUNC)
	}
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	packet := make([]byte, min(n, MaxPacket+1))
	if n, _, err = unix.Recvfrom(fd, packet, 0); err != nil {
		return nil, err
	}
	return packet[:n], nil
}
