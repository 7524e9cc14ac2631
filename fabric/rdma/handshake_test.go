package rdma

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// side is a peer of the simulation: its handshake, and the queue pairs that it made.
type side struct {
	handshake
	nextPair uint32
	joined   qpInfo // the peer's, to which ours is connected
}

func (s *side) makePair() qpInfo {
	s.nextPair++
	return qpInfo{s.self<<16 | s.nextPair, s.nextPair}
}

func (s *side) greeting(kind cmKind, asked qpInfo) cmMessage {
	g := cmMessage{kind: kind, from: s.self, to: s.peer, size: 2, epoch: s.epoch, rails: 1, reqQP: asked}
	g.fromIncarnation, g.toIncarnation = s.selfIncarnation, s.peerIncarnation
	g.qps[0] = s.selfQP
	return g
}

// act acts on a greeting as a domain does, and returns the answer, if any.
func (s *side) act(g *cmMessage) []cmMessage {
	switch s.receive(g) {
	case actionAccept:
		own := s.selfQP
		if s.state != stateREQSent {
			own = s.makePair()
		}
		s.joined = g.qps[0]
		s.accepted(g, own)
		return []cmMessage{s.greeting(cmREP, g.qps[0])}
	case actionRepeatREP:
		return []cmMessage{s.greeting(cmREP, g.qps[0])}
	case actionEstablish:
		s.joined = g.qps[0]
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

// TestHandshakeConverges: over a network that loses, repeats and reorders, both sides end connected to each other's queue
// pairs, however often the connection breaks, and whoever asks.
func TestHandshakeConverges(t *testing.T) {
	seed := rand.Uint64()
	for run := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, run))
		sides := newSides()
		var net []cmMessage
		for round := range 5 {
			breaks(r, sides, &net, round)
			if !converge(r, sides, &net) {
				t.Fatalf("seed %d run %d round %d: %+v and %+v", seed, run, round, *sides[0], *sides[1])
			}
		}
	}
}

// breaks has one side or both find the connection broken, and ask.
func breaks(r *rand.Rand, sides [2]*side, net *[]cmMessage, round int) {
	who := 1 + r.IntN(3)
	for i, s := range sides {
		if who>>i&1 == 0 {
			continue
		}
		if round > 0 {
			s.reset()
		}
		s.request(s.makePair())
		*net = append(*net, s.greeting(cmREQ, qpInfo{}))
	}
}

// converge runs the network until both sides are connected to each other.
func converge(r *rand.Rand, sides [2]*side, net *[]cmMessage) bool {
	for range 10_000 {
		// The first message over the connection tells who answered. It arrives if both pairs are connected to each other.
		for i, s := range sides {
			o := sides[1-i]
			joined := s.joined == o.selfQP && o.joined == s.selfQP
			if s.state == stateEstablished && o.state == stateREPSent && joined && r.IntN(3) == 0 {
				o.established(o.peerQP)
			}
			if s.state == stateREQSent && r.IntN(4) == 0 {
				*net = append(*net, s.greeting(cmREQ, qpInfo{}))
			}
		}
		if a, b := sides[0], sides[1]; a.state == stateEstablished && b.state == stateEstablished {
			return a.joined == b.selfQP && b.joined == a.selfQP && a.epoch == b.epoch
		}
		if len(*net) == 0 {
			continue
		}
		i := r.IntN(len(*net))
		g := (*net)[i]
		if r.IntN(4) > 0 { // otherwise it comes once more
			*net = slices.Delete(*net, i, i+1)
		}
		if r.IntN(3) > 0 {
			*net = append(*net, sides[g.to].act(&g)...)
		}
	}
	return false
}

// TestHandshakeStrangers: what is not from this peer's incarnation to ours changes nothing.
func TestHandshakeStrangers(t *testing.T) {
	good := cmMessage{kind: cmREQ, from: 1, to: 0, size: 2, epoch: 1, fromIncarnation: 200, toIncarnation: 100, rails: 1}
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
			t.Errorf("a greeting %s leads to step %d", name, got)
		}
	}
	if got := newSides()[0].receive(&good); got != actionAccept {
		t.Errorf("a good one leads to step %d", got)
	}
}
