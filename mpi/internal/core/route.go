package core

import (
	"fmt"
	"math"

	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// maxTag is the greatest tag, on every transport. It is the value of the attribute TagUB.
const maxTag = math.MaxInt32

// fastSendRoute returns the route of a send to rank dst. It reports false if the arguments need
// slowSendRoute.
func (c *Comm) fastSendRoute(dst, tag int) (proto.Route, bool) {
	if c == nil || uint(dst) >= uint(len(c.peers)) || uint(tag) > maxTag || c.state.Load() != commReady {
		return proto.Route{}, false
	}
	return proto.Route{Context: c.contextID, Peer: c.peers[dst], Match: proto.Match{Rank: c.rank, Tag: int32(tag)}}, true
}

// slowSendRoute handles the arguments that fastSendRoute rejects: it returns the route to ProcNull,
// or an error.
func (c *Comm) slowSendRoute(op string, dst, tag int) (proto.Route, error) {
	switch {
	case c == nil || c.state.Load() != commReady:
		return proto.Route{}, c.checkUsable(op)
	// ProcNull does not excuse a wrong tag: the arguments of such a call are checked like others.
	case uint(tag) > maxTag:
		return proto.Route{}, c.newError(op, ErrTag, fmt.Errorf("tag %d is out of range (0 to %d)", tag, maxTag))
	case dst != ProcNull:
		return proto.Route{}, c.newError(op, ErrRank, rankError(dst, len(c.peers)))
	}
	return proto.Route{Context: c.contextID, Peer: proto.ProcNull}, nil
}

// sendRoute checks the arguments of a send and returns its route.
func (c *Comm) sendRoute(op string, dst, tag int) (proto.Route, error) {
	to, ok := c.fastSendRoute(dst, tag)
	if !ok {
		return c.slowSendRoute(op, dst, tag)
	}
	return to, nil
}

// fastRecvRoute returns the route of a receive without wildcards. It reports false if the arguments
// need slowRecvRoute.
func (c *Comm) fastRecvRoute(src, tag int) (proto.Route, bool) {
	if c == nil || uint(src) >= uint(len(c.peers)) || uint(tag) > maxTag || c.state.Load() != commReady {
		return proto.Route{}, false
	}
	return proto.Route{Context: c.contextID, Peer: c.peers[src], Match: proto.Match{Rank: int32(src), Tag: int32(tag)}}, true
}

// slowRecvRoute handles the arguments that fastRecvRoute rejects: it returns a route with wildcards
// or from ProcNull, or an error.
func (c *Comm) slowRecvRoute(op string, src, tag int) (proto.Route, error) {
	switch {
	case c == nil || c.state.Load() != commReady:
		return proto.Route{}, c.checkUsable(op)
	case uint(tag) > maxTag && tag != AnyTag:
		return proto.Route{}, c.newError(op, ErrTag, fmt.Errorf("tag %d is out of range (0 to %d, or AnyTag)", tag, maxTag))
	case src != ProcNull && src != AnySource && uint(src) >= uint(len(c.peers)):
		return proto.Route{}, c.newError(op, ErrRank, rankError(src, len(c.peers)))
	}
	from := proto.Route{Context: c.contextID, Peer: proto.AnySource, Match: proto.Match{Rank: int32(src), Tag: int32(tag)}}
	if src >= 0 {
		from.Peer = c.peers[src]
	}
	return from, nil
}

// recvRoute checks the arguments of a receive and returns its route.
func (c *Comm) recvRoute(op string, src, tag int) (proto.Route, error) {
	from, ok := c.fastRecvRoute(src, tag)
	if !ok {
		return c.slowRecvRoute(op, src, tag)
	}
	return from, nil
}

// rankError is the cause of ErrRank and ErrRoot.
func rankError(rank, size int) error {
	return fmt.Errorf("rank %d is out of range: the communicator has ranks 0 to %d", rank, size-1)
}
