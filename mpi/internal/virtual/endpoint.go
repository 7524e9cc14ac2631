package virtual

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// endpoint is the connection of one peer to another.
type endpoint struct {
	hub        *Hub
	self, peer int
	memory     fabric.Endpoint // nil until this side has connected
	ended      error           // the error of every call from now on; nil: there is none

	inFlight int  // bytes of messages that have not arrived
	full     bool // a message found no room, and the peer has not been told of room since
	reopens  bool // the event that tells of room is scheduled
	arrived  float64
}

// spend lets the peer do something that takes the overhead of a message, and returns its clock afterwards.
func (e *endpoint) spend() float64 {
	p := &e.hub.peers[e.self]
	p.now += float64(e.hub.links.Between(e.self, e.peer).Overhead)
	return p.now
}

func (e *endpoint) Send(header, payload []byte) error {
	h := e.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.ended != nil {
		return e.ended
	}
	n := len(header) + len(payload)
	if limit := h.maxSend(); n > limit {
		return fmt.Errorf("virtual: send: %d bytes, at most %d", n, limit)
	}
	if e.full || e.inFlight != 0 && e.inFlight+n > windowBytes {
		e.full = true
		return fabric.ErrAgain
	}
	data := append(append(make([]byte, 0, n), header...), payload...)
	x := &event{source: e.self, from: e.self, to: e.peer, receiver: e.peer, endpoint: e,
		event: fabric.Event{Kind: fabric.Message, Peer: int32(e.self), Data: data}}
	if x.untimed = h.untimed(header); x.untimed {
		x.at = h.peers[e.self].now
	} else {
		x.at, x.bytes = e.spend(), n
		e.inFlight += n
	}
	h.schedule(x)
	h.step()
	return nil
}

// transfer finds how a message or another transfer that begins now moves, and sets when its event happens.
func (h *Hub) transfer(x *event) {
	x.phase = arrives
	if x.untimed { // after what was sent before, without a use of the links
		x.at = max(x.at, x.endpoint.arrived)
		return
	}
	_, x.at = h.links.Transfer(x.from, x.to, x.bytes, x.at)
	if x.endpoint != nil {
		x.endpoint.arrived = x.at
	}
	if x.ack {
		x.at += float64(h.links.Between(x.from, x.to).Latency)
	}
}

// leaveWindow records that a message has arrived. If the sender waits for room, it learns of it a latency later.
func (h *Hub) leaveWindow(x *event) {
	e := x.endpoint
	e.inFlight -= x.bytes
	if e.full && !e.reopens {
		e.reopens = true
		h.schedule(&event{at: x.at + float64(h.links.Between(x.from, x.to).Latency), source: x.receiver, phase: arrives,
			receiver: e.self, endpoint: e})
	}
}

// Read copies at once: the peer leaves the memory as it is until it learns that the Read is done.
func (e *endpoint) Read(dst []byte, local fabric.Region, src fabric.RemoteKey, token uint64) (bool, error) {
	return e.move(token, len(dst), true, func() (bool, error) { return e.memory.Read(dst, local, src, token) })
}

// Write copies at once, since the peer does not look before it has received a message that is sent after the Write is done.
func (e *endpoint) Write(src []byte, local fabric.Region, dst fabric.RemoteKey, token uint64) (bool, error) {
	return e.move(token, len(src), false, func() (bool, error) { return e.memory.Write(src, local, dst, token) })
}

// move copies n bytes, and schedules the event that tells that it is done.
func (e *endpoint) move(token uint64, n int, reads bool, moves func() (bool, error)) (bool, error) {
	h := e.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.ended != nil {
		return false, e.ended
	}
	if done, err := moves(); !done || err != nil {
		return done, err
	}
	x := &event{at: e.spend(), source: e.self, from: e.self, to: e.peer, bytes: n, ack: !reads, receiver: e.self,
		event: fabric.Event{Kind: fabric.Done, Peer: int32(e.peer), Token: token}}
	if reads {
		x.at += float64(h.links.Between(e.self, e.peer).Latency) // the request
		x.from, x.to = e.peer, e.self
	}
	h.schedule(x)
	h.step()
	return false, nil
}

func (e *endpoint) Close() error {
	h := e.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.ended == nil {
		e.ended = fmt.Errorf("virtual: endpoint: %w", fabric.ErrClosed)
		h.reportEnd(e.self, e.peer, fmt.Errorf("virtual: the endpoint of peer %d: %w", e.self, fabric.ErrPeerClosed))
		h.step()
	}
	return e.memory.Close()
}
