package wakesock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/fdpass"
)

// A process waits for the others at most minMeetTime plus meetTimeEach per process: all have exchanged messages over the launcher
// just before, but the launcher may answer one process after the other.
const (
	minMeetTime  = 2 * time.Minute
	meetTimeEach = 250 * time.Millisecond
)

// meetTime returns the limit for n processes.
func meetTime(n int) time.Duration { return minMeetTime + time.Duration(n)*meetTimeEach }

// errTimeout returns the cause if the others do not come.
func errTimeout(limit time.Duration) error {
	return fmt.Errorf("the processes of this node did not meet within %v. They need a common folder: one of "+
		"/tmp, /dev/shm and TMPDIR. Containers that share none can use IBRUN_TRANSPORT=tcp", limit)
}

// A process that has connected sends its number and a MAC, which only a process of the job can compute. The first process answers
// with messages of descriptors: the three of Ends, then the sending ends of all processes, at most fdpass.Max in a message.
const requestBytes = 4 + auth.MACBytes

// appendRequest appends the request of a process.
func appendRequest(b []byte, key auth.Key, process int) []byte {
	number := binary.LittleEndian.AppendUint32(nil, uint32(process))
	mac := key.MAC("meet", number)
	return append(append(b, number...), mac[:]...)
}

// parseRequest returns the number of the process that has sent a request.
func parseRequest(b []byte, key auth.Key, n int) (process int, ok bool) {
	if len(b) != requestBytes {
		return 0, false
	}
	mac := key.MAC("meet", b[:4])
	process = int(binary.LittleEndian.Uint32(b))
	return process, auth.Equal(b[4:], mac[:]) && process > 0 && process < n
}

// Meet obtains the descriptors of process self of n, and the sending ends of all processes. Process 0 makes them, and returns
// when all others have theirs.
func Meet(ctx context.Context, key auth.Key, self, n int) (ends Ends, send []int, err error) {
	if n == 1 {
		return meetNobody()
	}
	limit := meetTime(n)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout(limit))
	defer cancel()
	if self == 0 {
		ends, send, err = receiveAll(ctx, key, n)
	} else {
		ends, send, err = visit(ctx, key, self, n)
	}
	if err != nil {
		ends.Discard()
		fdpass.Discard(send...)
		return Ends{noFD, noFD, noFD}, nil, fmt.Errorf("meet the processes of this node: %w", err)
	}
	return ends, send, nil
}

// meetNobody is Meet for a process that is alone.
func meetNobody() (Ends, []int, error) {
	node, err := New(1)
	if err != nil {
		return Ends{noFD, noFD, noFD}, nil, err
	}
	defer node.Close()
	return node.keep(0)
}

// keep returns duplicates of the ends of a process and of all sending ends, also if there is an error.
func (n *Node) keep(self int) (Ends, []int, error) {
	ends := Ends{noFD, noFD, noFD}
	var send []int
	var errs [3]error
	from := n.Ends(self)
	ends.Receive, errs[0] = dup(from.Receive)
	ends.Send, errs[1] = dup(from.Send)
	ends.Ended, errs[2] = dup(from.Ended)
	err := errors.Join(errs[:]...)
	for i := range n.send {
		fd, errDup := dup(n.send[i])
		send, err = append(send, fd), errors.Join(err, errDup)
	}
	return ends, send, err
}

func dup(fd int) (int, error) {
	got, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return noFD, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
	}
	return got, nil
}

// receiveAll is Meet for process 0.
func receiveAll(ctx context.Context, key auth.Key, n int) (ends Ends, send []int, err error) {
	ends = Ends{noFD, noFD, noFD}
	f, err := makeFolder(key, places())
	if err != nil {
		return ends, nil, err
	}
	defer func() { err = errors.Join(err, f.remove()) }()
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return ends, nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(listener)
	if err := unix.Bind(listener, &unix.SockaddrUnix{Name: f.socketPath()}); err != nil {
		return ends, nil, fmt.Errorf("bind a socket in %s: %w", f.path, err)
	}
	if err := unix.Listen(listener, n); err != nil {
		return ends, nil, os.NewSyscallError("listen", err)
	}
	node, err := New(n)
	if err != nil {
		return ends, nil, err
	}
	defer node.Close()
	if err := node.handOut(ctx, listener, key); err != nil {
		return ends, nil, err
	}
	return node.keep(0)
}

// handOut gives each process that comes its descriptors, until all have come.
func (n *Node) handOut(ctx context.Context, listener int, key auth.Key) error {
	for missing := len(n.send) - 1; missing > 0; {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch {
		case err == unix.EAGAIN:
			err = waitFor(ctx, listener, unix.POLLIN)
		case err == unix.EINTR, err == unix.ECONNABORTED:
			err = nil
		case err != nil:
			err = os.NewSyscallError("accept", err)
		default:
			var came bool
			came, err = n.serve(ctx, fd, key)
			_ = unix.Close(fd) // a Unix socket: nothing is lost
			if came {
				missing--
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// serve answers one visitor. came is false, without an error, if it is not a process of the job.
func (n *Node) serve(ctx context.Context, fd int, key auth.Key) (came bool, err error) {
	if cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil || int(cred.Uid) != os.Geteuid() {
		return false, nil
	}
	var r fdpass.Receiver
	request := make([]byte, requestBytes+1)
	for {
		got, fds, err := r.Receive(fd, request)
		fdpass.Discard(fds...)
		if err == unix.EAGAIN {
			if err := waitFor(ctx, fd, unix.POLLIN); err != nil {
				return false, err
			}
			continue
		}
		if err != nil {
			return false, nil
		}
		request = request[:got]
		break
	}
	i, ok := parseRequest(request, key, len(n.send))
	if !ok || n.receive[i] == noFD {
		return false, nil
	}
	if err := n.give(ctx, fd, i); err != nil {
		return false, fmt.Errorf("hand sockets to process %d of this node: %w", i, err)
	}
	n.Handed(i)
	return true, nil
}

// give sends process i its descriptors.
func (n *Node) give(ctx context.Context, fd, i int) error {
	ends := n.Ends(i)
	if err := sendWaiting(ctx, fd, ends.Receive, ends.Send, ends.Ended); err != nil {
		return err
	}
	for rest := n.send; len(rest) != 0; {
		k := min(len(rest), fdpass.Max)
		if err := sendWaiting(ctx, fd, rest[:k]...); err != nil {
			return err
		}
		rest = rest[k:]
	}
	return nil
}

// sendWaiting sends one message with descriptors. It waits while the receiver has to read first, or other receivers have to.
func sendWaiting(ctx context.Context, fd int, fds ...int) error {
	for {
		err := fdpass.Send(fd, []byte{byte(len(fds))}, fds...)
		switch {
		case errors.Is(err, unix.ETOOMANYREFS) && ctx.Err() == nil:
			time.Sleep(time.Millisecond)
			continue
		case err != unix.EAGAIN:
			return err
		}
		if err := waitFor(ctx, fd, unix.POLLOUT); err != nil {
			return err
		}
	}
}

// visit is Meet for the other processes.
func visit(ctx context.Context, key auth.Key, self, n int) (ends Ends, send []int, err error) {
	ends = Ends{noFD, noFD, noFD}
	fd, err := dialFirst(ctx, key, places())
	if err != nil {
		return ends, nil, err
	}
	defer unix.Close(fd)
	if err := fdpass.Send(fd, appendRequest(nil, key, self)); err != nil {
		return ends, nil, err
	}
	got, err := receiveDescriptors(ctx, fd, 3)
	if err != nil {
		return ends, nil, err
	}
	ends = Ends{got[0], got[1], got[2]}
	if err := ends.Check(); err != nil {
		return ends, nil, err
	}
	for len(send) < n {
		got, err := receiveDescriptors(ctx, fd, min(n-len(send), fdpass.Max))
		send = append(send, got...)
		if err != nil {
			return ends, send, err
		}
		for _, fd := range got {
			if err := fdpass.CheckUnixSocket(fd, unix.SOCK_SEQPACKET); err != nil {
				return ends, send, err
			}
		}
	}
	return ends, send, nil
}

// errFirstEnded means that process 0 of the node does not answer any more.
var errFirstEnded = errors.New("the first process of this node has ended")

// receiveDescriptors receives one message, with so many descriptors.
func receiveDescriptors(ctx context.Context, fd, count int) ([]int, error) {
	var r fdpass.Receiver
	for {
		n, fds, err := r.Receive(fd, make([]byte, 1))
		switch {
		case err == unix.EAGAIN:
			if err := waitFor(ctx, fd, unix.POLLIN); err != nil {
				return nil, err
			}
			continue
		case errors.Is(err, unix.ECONNRESET), err == nil && n == 0:
			fdpass.Discard(fds...)
			return nil, errFirstEnded
		case err == nil && len(fds) != count:
			fdpass.Discard(fds...)
			return nil, fmt.Errorf("%w: %d in a message instead of %d", fdpass.ErrUnexpected, len(fds), count)
		}
		return fds, err
	}
}

// dialFirst connects to process 0, which may not be there yet.
func dialFirst(ctx context.Context, key auth.Key, places []string) (int, error) {
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		for _, place := range places {
			fd, err := dial(filepath.Join(place, folderName(key)))
			if err == nil {
				return fd, nil
			}
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ECONNREFUSED) &&
				!errors.Is(err, unix.EAGAIN) {
				return noFD, err
			}
		}
		if ctx.Err() != nil {
			return noFD, context.Cause(ctx)
		}
		time.Sleep(pause)
	}
}

// dial connects to the socket in the folder.
func dial(path string) (int, error) {
	f, err := openFolder(path)
	if err != nil {
		return noFD, err
	}
	defer f.close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return noFD, os.NewSyscallError("socket", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: f.socketPath()}); err != nil {
		_ = unix.Close(fd)
		return noFD, os.NewSyscallError("connect", err)
	}
	return fd, nil
}

// waitFor waits until fd is readable or writable. It checks ctx every 100 ms.
func waitFor(ctx context.Context, fd int, events int16) error {
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, 100)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
	}
	return context.Cause(ctx)
}
