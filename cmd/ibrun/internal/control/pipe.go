package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// PipeAddr is the address of a side of a [Pipe]: the name of its host, for messages.
type PipeAddr string

// Network returns "pipe".
func (a PipeAddr) Network() string { return "pipe" }

// String returns the name of the host.
func (a PipeAddr) String() string { return string(a) }

// Pipe is a connection that consists of one file for each direction: the pipes to the process that has started a node, or to the
// process that was started. It is a [net.Conn], also if the two files are one socket.
type Pipe struct {
	in, out       *os.File
	local, remote PipeAddr
}

// NewPipe returns the connection that reads from in and writes to out. It takes ownership of both, also if it returns an error.
// They must be pipes or sockets. Their open files become non-blocking, for all processes that share them. local and remote are
// the names of the two hosts.
func NewPipe(in, out *os.File, local, remote string) (*Pipe, error) {
	p := &Pipe{local: PipeAddr(local), remote: PipeAddr(remote)}
	err := errors.Join(pollable(&p.in, in, "input"), pollable(&p.out, out, "output"))
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// pollable closes f, and sets to to a file for the same pipe that has deadlines. It needs another descriptor: the runtime polls
// only what was non-blocking when the [os.File] was made, and treats a broken pipe as standard output as a signal.
func pollable(to **os.File, f *os.File, what string) error {
	defer f.Close()
	conn, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("open the %s of a connection: %w", what, err)
	}
	fd := -1
	errControl := conn.Control(func(old uintptr) {
		if fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 3); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	})
	if fd >= 0 {
		*to = os.NewFile(uintptr(fd), f.Name())
	}
	if err = errors.Join(errControl, err); err == nil {
		err = (*to).SetDeadline(time.Time{}) // fails unless the runtime can poll the file
	}
	if err != nil {
		return fmt.Errorf("%s %s must be a pipe or a socket: %w", what, f.Name(), err)
	}
	return nil
}

// Read reads what the other side has written. It returns io.EOF when that has closed its direction.
func (p *Pipe) Read(b []byte) (int, error) { return p.in.Read(b) }

// Write writes all of b, unless it returns an error.
func (p *Pipe) Write(b []byte) (int, error) { return p.out.Write(b) }

// Close closes both directions. Reads and writes that wait return an error.
func (p *Pipe) Close() error {
	var err error
	for _, f := range []*os.File{p.in, p.out} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// CloseWrite closes the direction to the other side.
func (p *Pipe) CloseWrite() error {
	if conn, err := p.out.SyscallConn(); err == nil { // if it is a socket, another descriptor of it is still open
		_ = conn.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) // a pipe has no other descriptor
	}
	return p.out.Close()
}

// LocalAddr returns a [PipeAddr].
func (p *Pipe) LocalAddr() net.Addr { return p.local }

// RemoteAddr returns a [PipeAddr].
func (p *Pipe) RemoteAddr() net.Addr { return p.remote }

// SetDeadline sets both deadlines.
func (p *Pipe) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline of reads, also of one that waits.
func (p *Pipe) SetReadDeadline(t time.Time) error { return p.in.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of writes, also of one that waits.
func (p *Pipe) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }

// ErrPipe means that the other side of a pipe has closed it, without notice. Its ibrun has ended, or what connects it with this
// one, for instance ssh.
var ErrPipe = errors.New("its pipe was closed: its ibrun has ended, or what connects the hosts")

// explainTimeout bounds how long ServePipe waits for the reason why a pipe was closed.
const explainTimeout = 5 * time.Second

// ServePipe makes a connection at the coordinator over a pipe to the given node, which calls
// [JoinPipe] on the other end. It takes ownership of raw, also if it returns an error. It returns
// when the handshake is complete, or has failed, or ctx has ended.
//
// The connection is lost when the pipe breaks, because no other can take its place. If the other side has closed the pipe without
// notice, explain is called, unless it is nil: it may return a more precise reason than [ErrPipe], or nil. It has
// explainTimeout for that.
func ServePipe(ctx context.Context, raw net.Conn, s Security, node, nodes int, heartbeat time.Duration,
	explain func() error) (*Conn, error) {
	return overPipe(ctx, raw, explain, func() (*Conn, *link, error) {
		g, err := greetNode(raw, s, heartbeat)
		if err != nil {
			return nil, nil, err
		}
		if g.node != node || g.nodes != nodes || g.session != (sessionID{}) {
			return nil, nil, fmt.Errorf("%w: it was started as node %d of %d, and claims to be node %d of %d", errProtocol,
				node, nodes, g.node, g.nodes)
		}
		return newConn(g, true)
	})
}

// JoinPipe connects a node to the coordinator over a pipe, at whose other end the coordinator calls
// [ServePipe]. It takes ownership of raw, also if it returns an error. The connection is lost when
// the pipe breaks.
func JoinPipe(ctx context.Context, raw net.Conn, s Security, node, nodes int) (*Conn, error) {
	return overPipe(ctx, raw, nil, func() (*Conn, *link, error) {
		return join(raw, s, request{node: node, nodes: nodes}, s.encrypts())
	})
}

// overPipe returns the connection that a handshake over a pipe has made.
func overPipe(ctx context.Context, raw net.Conn, explain func() error,
	handshake func() (*Conn, *link, error)) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	c, l, err := handshake()
	if !stop() {
		err = context.Cause(ctx)
	}
	if err == nil {
		c.single, c.onEnd = true, func() {}
		c.recover = (&pipeEnd{c, explain}).recover
		err = c.attach(l, 0)
	}
	if err != nil {
		raw.Close()
		if brokenPipe(err) {
			err = fmt.Errorf("%w (%w)", ErrPipe, err)
		}
		return nil, err
	}
	return c, nil
}

// pipeEnd ends a connection whose pipe has broken.
type pipeEnd struct {
	conn    *Conn
	explain func() error // nil: there is no other reason than ErrPipe
}

func (p *pipeEnd) recover(broken uint64, why error) {
	if brokenPipe(why) {
		why = ErrPipe
		if better := p.reason(); better != nil {
			why = better
		}
	}
	p.conn.endBroken(broken, why)
}

// reason returns the result of explain, if it comes in time.
func (p *pipeEnd) reason() error {
	if p.explain == nil {
		return nil
	}
	said := make(chan error, 1)
	go func() { said <- p.explain() }()
	select {
	case err := <-said:
		return err
	case <-time.After(explainTimeout):
		return nil
	case <-p.conn.lost: // this side has called Close
		return nil
	}
}

// brokenPipe reports whether an error means that the other side has closed a pipe.
func brokenPipe(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.EPIPE) ||
		errors.Is(err, unix.ECONNRESET)
}
