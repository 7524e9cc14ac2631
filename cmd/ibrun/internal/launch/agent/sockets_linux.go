package agent

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/internal/wakesock"
)

// nodeSockets has the sockets over which the ranks of this node wake each other. A rank requests them when it needs them, so
// programs that do not use them take none.
type nodeSockets struct {
	mu   sync.Mutex
	node *wakesock.Node
	n    int
}

func newNodeSockets(n int) (*nodeSockets, error) {
	node, err := wakesock.New(n)
	return &nodeSockets{node: node, n: n}, err
}

// answer sends the sockets that the rank local requests: its own, or the one that leads to another rank. The rank waits for an
// answer. If the kernel does not pass the sockets, there are none in it.
func (s *nodeSockets) answer(link *ranklink.Link, local int, request ranklink.LocalRank) error {
	err := link.SendFiles(ranklink.KindSocket, request, s.requested(local, request.Local)...)
	if errors.Is(err, unix.ETOOMANYREFS) {
		return link.SendFiles(ranklink.KindSocket, request)
	}
	return err
}

// requested returns the descriptors that answer a request. They stay open as long as the agent; only a rank's receiving end is
// closed here once it was sent, by handed.
func (s *nodeSockets) requested(local, of int) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case of < 0 || of >= s.n:
		return nil
	case of != local:
		return []int{s.node.Send(of)}
	}
	ends := s.node.Ends(of)
	if ends.Receive < 0 {
		return nil
	}
	return []int{ends.Receive, ends.Send, ends.Ended}
}

// handed closes the agent's duplicate of a rank's receiving end, so that the other ranks learn when the rank ends. It is called
// when the rank has its own, and when the rank has exited.
func (s *nodeSockets) handed(local int) {
	s.mu.Lock()
	s.node.Handed(local)
	s.mu.Unlock()
}

// wake wakes a rank for another one that has no descriptor left, or that closes before it has the socket.
func (s *nodeSockets) wake(local int) {
	if fds := s.requested(-1, local); fds != nil {
		// If the queue is full, the rank has something to read, and is awake or will be. A rank that has exited does not sleep.
		_ = unix.Send(fds[0], []byte{wakesock.Wake}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}
}

// handleSocketRequest handles the messages of a rank about sockets.
func (a *agent) handleSocketRequest(r *rank, m ranklink.Message) error {
	var request ranklink.LocalRank
	if err := m.Decode(&request); err != nil {
		return err
	}
	if m.Kind == ranklink.KindWakeRequest {
		a.sockets.wake(request.Local)
		return nil
	}
	local := a.task.LocalIndex(r.task.Rank)
	err := a.sockets.answer(r.link, local, request)
	if request.Local == local {
		a.sockets.handed(local)
	}
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil // the rank has exited
	}
	return err
}
