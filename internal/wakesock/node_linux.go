package wakesock

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/fdpass"
)

// noFD is used in place of a descriptor that does not exist.
const noFD = -1

// Wake is the message that only wakes the receiver: this one byte.
const Wake = 'W'

// Ends are the descriptors of one process.
type Ends struct {
	// Receive is where the process receives. It must have no duplicates in other processes when all have started.
	Receive int
	// Send leads to Receive.
	Send int
	// Ended is the epoll set of the node.
	Ended int
}

// Check returns an error unless the descriptors are of the right types.
func (e Ends) Check() error {
	err := errors.Join(fdpass.CheckUnixSocket(e.Receive, unix.SOCK_SEQPACKET), fdpass.CheckUnixSocket(e.Send, unix.SOCK_SEQPACKET))
	if err != nil {
		return err
	}
	// Nothing else than an epoll set accepts this call.
	if _, err := unix.EpollWait(e.Ended, make([]unix.EpollEvent, 1), 0); err != nil {
		return fmt.Errorf("%w: descriptor %d is not an epoll set: %w", fdpass.ErrUnexpected, e.Ended, err)
	}
	return nil
}

// Discard closes the descriptors.
func (e Ends) Discard() { fdpass.Discard(e.Receive, e.Send, e.Ended) }

// Node has the sockets of all processes of a node.
type Node struct {
	receive []int // by number of the process; noFD: given away
	send    []int
	ended   int // epoll set; the Fd of an event is the number of the process
}

// New makes the sockets of n processes.
func New(n int) (_ *Node, err error) {
	node := &Node{ended: noFD}
	defer func() {
		if err != nil {
			node.Close()
		}
	}()
	if node.ended, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make the sockets of %d processes: create an epoll descriptor: %w", n, err)
	}
	for i := range n {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, fmt.Errorf("make the sockets of %d processes: %w", n, err)
		}
		node.receive, node.send = append(node.receive, fds[0]), append(node.send, fds[1])
		// The kernel adds EPOLLHUP, which is all that is needed.
		if err := unix.EpollCtl(node.ended, unix.EPOLL_CTL_ADD, fds[1], &unix.EpollEvent{Fd: int32(i)}); err != nil {
			return nil, fmt.Errorf("make the sockets of %d processes: watch one: %w", n, err)
		}
	}
	return node, nil
}

// Ends returns the descriptors of process i, which the node still owns.
func (n *Node) Ends(i int) Ends { return Ends{n.receive[i], n.send[i], n.ended} }

// Send returns the sending end of process i, which the node still owns.
func (n *Node) Send(i int) int { return n.send[i] }

// Handed closes the node's duplicate of the receiving end of process i. The end of a process is not reported as long as the
// node holds its receiving end.
func (n *Node) Handed(i int) {
	if n.receive[i] != noFD {
		_ = unix.Close(n.receive[i]) // a Unix socket: nothing is lost
		n.receive[i] = noFD
	}
}

// Close closes what the node owns. Duplicates stay open.
func (n *Node) Close() {
	for i := range n.receive {
		n.Handed(i)
	}
	for _, fd := range n.send {
		_ = unix.Close(fd)
	}
	if n.ended != noFD {
		_ = unix.Close(n.ended)
	}
	n.receive, n.send, n.ended = nil, nil, noFD
}
