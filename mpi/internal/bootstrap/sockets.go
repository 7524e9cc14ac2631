package bootstrap

import (
	"context"
	"errors"
	"sync"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// nodeSockets obtains the sockets between the processes of this node from ibrun. It implements shm.Sockets.
type nodeSockets struct {
	link *ranklink.Link
	self int           // this process among those of the node
	own  chan []int    // the descriptors of this process
	done chan struct{} // closed when the connection to ibrun has ended

	mu      sync.Mutex
	waiting map[int]func(fd int, err error) // by process: what Request was given
}

// errNoSocket means that ibrun could not pass a socket.
var errNoSocket = errors.New("ibrun could not pass the socket; the limit of open files may be too small (ulimit -n)")

func newNodeSockets(link *ranklink.Link, info *ranklink.RankInfo) *nodeSockets {
	return &nodeSockets{link: link, self: info.LocalRank, own: make(chan []int, 1), done: make(chan struct{}),
		waiting: map[int]func(int, error){}}
}

// Own returns the descriptors of this process: where it receives, what leads there, and the epoll set of ended processes.
func (s *nodeSockets) Own(ctx context.Context) (receive, send, ended int, err error) {
	if err := s.link.Send(ranklink.KindSocketRequest, ranklink.LocalRank{Local: s.self}); err != nil {
		return -1, -1, -1, err
	}
	select {
	case fds := <-s.own:
		if len(fds) != 3 {
			ranklink.Message{Files: fds}.Discard()
			return -1, -1, -1, errNoSocket
		}
		return fds[0], fds[1], fds[2], nil
	case <-s.done:
		return -1, -1, -1, errors.New("the connection to ibrun has ended")
	case <-ctx.Done():
		return -1, -1, -1, context.Cause(ctx)
	}
}

// Request obtains the socket that leads to a process of this node, and passes it to deliver.
func (s *nodeSockets) Request(local int, deliver func(fd int, err error)) error {
	s.mu.Lock()
	s.waiting[local] = deliver
	s.mu.Unlock()
	return s.link.Send(ranklink.KindSocketRequest, ranklink.LocalRank{Local: local})
}

// Wake wakes a process of this node through ibrun.
func (s *nodeSockets) Wake(local int) {
	_ = s.link.Send(ranklink.KindWakeRequest, ranklink.LocalRank{Local: local}) // it fails only if ibrun has ended
}

// received handles an answer of ibrun.
func (s *nodeSockets) received(m ranklink.Message) {
	var of ranklink.LocalRank
	if m.Decode(&of) != nil {
		m.Discard()
		return
	}
	if of.Local == s.self {
		select {
		case s.own <- m.Files:
		default: // not requested
			m.Discard()
		}
		return
	}
	s.mu.Lock()
	deliver := s.waiting[of.Local]
	delete(s.waiting, of.Local)
	s.mu.Unlock()
	switch {
	case deliver == nil:
		m.Discard()
	case len(m.Files) != 1:
		m.Discard()
		deliver(-1, errNoSocket)
	default:
		deliver(m.Files[0], nil)
	}
}
