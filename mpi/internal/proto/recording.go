package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
	"github.com/ibrun/ibrun/perf"
)

// Recording returns where the engine records its calls.
func (e *Engine) Recording() *record.Recording { return &e.rec }

// SetRecording switches recording on or off. It is on at the start.
func (e *Engine) SetRecording(on bool) {
	e.lock()
	defer e.unlock()
	if !e.rec.Switch(on) {
		return
	}
	for _, p := range e.links.peers {
		if p != nil {
			p.link, p.inactiveLink = p.inactiveLink, p.link
		}
	}
}

// recordTransports records the counters of the transports and registration caches.
func recordTransports(r *perf.Recorder, paths []*path) {
	if r == nil {
		return
	}
	var made, resent, connections, changed uint64
	pinned := 0
	for _, x := range paths {
		if x.regs != nil {
			s := x.regs.Stats()
			made += s.Misses
			pinned += s.Bytes
		}
		if x.retransmits != nil {
			resent += x.retransmits.Retransmits()
		}
		if x.reconnects != nil {
			n, m := x.reconnects.Reconnects()
			connections += n
			changed += m
		}
	}
	r.Retransmitted(resent)
	r.Reconnected(connections, changed)
	r.Registered(made, pinned)
}

// traceSend records that the message of a send to the peer is about to be posted.
func (p *peer) traceSend(c *record.Recording, r *Request) {
	if c.Trace != nil {
		p.sent++
		c.Sent(r.route.Peer, r.route.Tag, r.route.Context, p.sent, r.size())
	}
}
