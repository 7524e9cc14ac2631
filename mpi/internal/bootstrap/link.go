package bootstrap

import (
	"context"
	"errors"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// linkServer handles the messages of ibrun: it passes on the sockets that this process has requested and which ranks have left
// the job, and answers requests for the stacks of this process.
type linkServer struct {
	link    *ranklink.Link
	process *Process
	sockets *nodeSockets
	started chan struct{} // closed when the process has initialised; the fields of process do not change afterwards
}

func newLinkServer(link *ranklink.Link, p *Process, info *ranklink.RankInfo) *linkServer {
	return &linkServer{link: link, process: p, sockets: newNodeSockets(link, info), started: make(chan struct{})}
}

// run returns when the connection to ibrun ends. It runs beside the program's goroutines.
func (s *linkServer) run() {
	defer close(s.sockets.done)
	for {
		m, err := s.link.Recv(context.Background())
		if err != nil && !errors.Is(err, ranklink.ErrMalformed) {
			return
		}
		if err == nil && s.handle(m) != nil {
			return
		}
	}
}

// handle handles a message. It returns an error if the connection to ibrun has ended.
func (s *linkServer) handle(m ranklink.Message) error {
	if m.Kind == ranklink.KindSocket {
		s.sockets.received(m)
		return nil
	}
	m.Discard() // other messages have no descriptors
	switch m.Kind {
	case ranklink.KindRequestStacks:
		return s.link.Send(ranklink.KindStacks, stacks())
	case ranklink.KindLeft:
		<-s.started // ibrun sends it only after that
		var left ranklink.Left
		if m.Decode(&left) == nil && s.process.Left != nil { // a malformed message is ignored, as in run
			s.process.Left(left.Ranks)
		}
	}
	return nil
}
