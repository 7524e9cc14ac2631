package rdma

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// side is a peer of the simulation: its handshake, and the queue pairs that it made.
type side struct {
	handshake
	lastQPN     uint32
	connectedTo qpInfo // the queue pair of the peer that ours is connected to
}

func (s *side) makeQP() qpInfo {
	s.lastQPN++
	return qpInfo{qpn: s.self<<16 | s.lastQPN, psn: s.lastQPN}
}

func (s *side) message(kind cmKind, asked qpInfo) cmMessage {
	g := cmMessage{kind: kind, from: s.self, to: s.peer, size: 2, epoch: s.epoch, lanes: 1, reqQP: asked}
	g.fromIncarnation, g.toIncarnation = s.selfIncarnation, s.peerIncarnation
	g.qps[0] = s.selfQP
	return g
}

// act handles a datagram like a domain, and returns the answer if there is one.
func (s *side) act(g *cmMessage) []cmMessage {
	switch s.receive(g) {
	case actionAccept:
		own := s.selfQP
		if s.state != stateREQSent {
			own = s.makeQP()
		}
		s.connectedTo = g.qps[0]
		s.accepted(g, own)
		return []cmMessage{s.message(cmREP, g.qps[0])}
	case actionRepeatREP:
		return []cmMessage{s.message(cmREP, g.qps[0])}
	case actionEstablish:
		s.connectedTo = g.qps[0]
		s.established(g.qps[0])
	}
	return nil
}

func newSides() [2]*side {
	return [2]*side{
		{handshake: handshake{self: 0, peer: 1, selfIncarnation: 100, peerIncarnation: 200}},
		{handshake: handshake{self: 1, peer: 0, selfIncarnation: 200, peerIncarnation: 100}},
	}
}

// TestHandshakeConverges: over a network that loses, repeats and reorders datagrams, the two sides become connected to each
// other's queue pairs, however often the connection breaks, and whichever side requests it.
func TestHandshakeConverges(t *testing.T) {
	seed := soaktest.Seed(t)
	for run := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, run))
		sides := newSides()
		var net []cmMessage
		for round := range 5 {
			breakSides(r, sides, &net, round)
			if !converge(r, sides, &net) {
				t.Fatalf("seed %d run %d round %d: %+v and %+v", seed, run, round, *sides[0], *sides[1])
			}
		}
	}
}

// breakSides makes one side or both find the connection broken, and send a REQ.
func breakSides(r *rand.Rand, sides [2]*side, net *[]cmMessage, round int) {
	broken := 1 + r.IntN(3)
	for i, s := range sides {
		if broken>>i&1 == 0 {
			continue
		}
		if round > 0 {
			s.reset()
		}
		s.request(s.makeQP())
		*net = append(*net, s.message(cmREQ, qpInfo{}))
	}
}

// converge runs the network until both sides are connected to each other.
func converge(r *rand.Rand, sides [2]*side, net *[]cmMessage) bool {
	for range 10_000 {
		// The first message establishes the connection at the side that sent the REP. It arrives if both queue pairs are
		// connected.
		for i, s := range sides {
			o := sides[1-i]
			joined := s.connectedTo == o.selfQP && o.connectedTo == s.selfQP
			if s.state == stateEstablished && o.state == stateREPSent && joined && r.IntN(3) == 0 {
				o.established(o.peerQP)
			}
			if s.state == stateREQSent && r.IntN(4) == 0 {
				*net = append(*net, s.message(cmREQ, qpInfo{}))
			}
		}
		if a, b := sides[0], sides[1]; a.state == stateEstablished && b.state == stateEstablished {
			return a.connectedTo == b.selfQP && b.connectedTo == a.selfQP && a.epoch == b.epoch
		}
		if len(*net) == 0 {
			continue
		}
		i := r.IntN(len(*net))
		g := (*net)[i]
		if r.IntN(4) > 0 { // otherwise it arrives again
			*net = slices.Delete(*net, i, i+1)
		}
		if r.IntN(3) > 0 {
			*net = append(*net, sides[g.to].act(&g)...)
		}
	}
	return false
}

// TestHandshakeRejects: a datagram that is not from the current incarnation of the peer to that of this side changes nothing.
func TestHandshakeRejects(t *testing.T) {
	good := cmMessage{kind: cmREQ, from: 1, to: 0, size: 2, epoch: 1, fromIncarnation: 200, toIncarnation: 100, lanes: 1}
	for name, change := range map[string]func(*cmMessage){
		"of an earlier run":   func(g *cmMessage) { g.fromIncarnation = 199 },
		"to an earlier run":   func(g *cmMessage) { g.toIncarnation = 99 },
		"from another peer":   func(g *cmMessage) { g.from = 2 },
		"to another peer":     func(g *cmMessage) { g.to = 1 },
		"of no incarnation":   func(g *cmMessage) { g.fromIncarnation = 0 },
		"answer to nothing":   func(g *cmMessage) { g.kind = cmREP },
		"of an earlier epoch": func(g *cmMessage) { g.epoch = 0 },
	} {
		s := newSides()[0]
		before, g := s.handshake, good
		change(&g)
		if got := s.receive(&g); got != actionNone || s.handshake != before {
			t.Errorf("a datagram %s leads to action %d", name, got)
		}
	}
	if got := newSides()[0].receive(&good); got != actionAccept {
		t.Errorf("a valid datagram leads to action %d", got)
	}
}
