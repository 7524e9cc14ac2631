package cm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
)

// side is a peer of the simulation: its handshake, and the queue pairs that it made.
type side struct {
	Handshake
	lastQPN     uint32
	connectedTo QP // the queue pair of the peer that ours is connected to
}

func (s *side) makeQP() QP {
	s.lastQPN++
	return QP{QPN: s.Self<<16 | s.lastQPN, PSN: s.lastQPN}
}

func (s *side) message(kind Kind, asked QP) Message {
	g := Message{Kind: kind, From: s.Self, To: s.Peer, Size: 2, Epoch: s.Epoch, Lanes: 1, ReqQP: asked}
	g.FromIncarnation, g.ToIncarnation = s.SelfIncarnation, s.PeerIncarnation
	g.Pairs[0] = s.SelfQP
	return g
}

// act handles a datagram like a domain, and returns the answer if there is one.
func (s *side) act(g *Message) []Message {
	switch s.Receive(g) {
	case ActionAccept:
		own := s.SelfQP
		if s.State != StateREQSent {
			own = s.makeQP()
		}
		s.connectedTo = g.Pairs[0]
		s.Accepted(g, own)
		return []Message{s.message(REP, g.Pairs[0])}
	case ActionRepeatREP:
		return []Message{s.message(REP, g.Pairs[0])}
	case ActionEstablish:
		s.connectedTo = g.Pairs[0]
		s.Established(g.Pairs[0])
	}
	return nil
}

func newSides() [2]*side {
	return [2]*side{
		{Handshake: Handshake{Self: 0, Peer: 1, SelfIncarnation: 100, PeerIncarnation: 200}},
		{Handshake: Handshake{Self: 1, Peer: 0, SelfIncarnation: 200, PeerIncarnation: 100}},
	}
}

// TestHandshakeConverges: over a network that loses, repeats and reorders datagrams, the two sides
// become connected to each other's queue pairs, however often the connection breaks, and whichever
// side requests it.
func TestHandshakeConverges(t *testing.T) {
	seed := soaktest.Seed(t)
	for run := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, run))
		sides := newSides()
		var net []Message
		for round := range 5 {
			breakSides(r, sides, &net, round)
			if !converge(r, sides, &net) {
				t.Fatalf("seed %d run %d round %d: %+v and %+v", seed, run, round, *sides[0], *sides[1])
			}
		}
	}
}

// breakSides makes one side or both find the connection broken, and send a REQ.
func breakSides(r *rand.Rand, sides [2]*side, net *[]Message, round int) {
	broken := 1 + r.IntN(3)
	for i, s := range sides {
		if broken>>i&1 == 0 {
			continue
		}
		if round > 0 {
			s.Reset()
		}
		s.Request(s.makeQP())
		*net = append(*net, s.message(REQ, QP{}))
	}
}

// converge runs the network until both sides are connected to each other.
func converge(r *rand.Rand, sides [2]*side, net *[]Message) bool {
	for range 10_000 {
		// The first message establishes the connection at the side that sent the REP. It arrives if
		// both queue pairs are connected.
		for i, s := range sides {
			o := sides[1-i]
			joined := s.connectedTo == o.SelfQP && o.connectedTo == s.SelfQP
			if s.State == StateEstablished && o.State == StateREPSent && joined && r.IntN(3) == 0 {
				o.Established(o.PeerQP)
			}
			if s.State == StateREQSent && r.IntN(4) == 0 {
				*net = append(*net, s.message(REQ, QP{}))
			}
		}
		if a, b := sides[0], sides[1]; a.State == StateEstablished && b.State == StateEstablished {
			return a.connectedTo == b.SelfQP && b.connectedTo == a.SelfQP && a.Epoch == b.Epoch
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
			*net = append(*net, sides[g.To].act(&g)...)
		}
	}
	return false
}

// TestHandshakeRejects: a datagram that is not from the current incarnation of the peer to that of
// this side changes nothing.
func TestHandshakeRejects(t *testing.T) {
	good := Message{Kind: REQ, From: 1, To: 0, Size: 2, Epoch: 1, FromIncarnation: 200, ToIncarnation: 100, Lanes: 1}
	for name, change := range map[string]func(*Message){
		"of an earlier run":   func(g *Message) { g.FromIncarnation = 199 },
		"to an earlier run":   func(g *Message) { g.ToIncarnation = 99 },
		"from another peer":   func(g *Message) { g.From = 2 },
		"to another peer":     func(g *Message) { g.To = 1 },
		"of no incarnation":   func(g *Message) { g.FromIncarnation = 0 },
		"answer to nothing":   func(g *Message) { g.Kind = REP },
		"of an earlier epoch": func(g *Message) { g.Epoch = 0 },
	} {
		s := newSides()[0]
		before, g := s.Handshake, good
		change(&g)
		if got := s.Receive(&g); got != actionNone || s.Handshake != before {
			t.Errorf("a datagram %s leads to action %d", name, got)
		}
	}
	if got := newSides()[0].Receive(&good); got != ActionAccept {
		t.Errorf("a valid datagram leads to action %d", got)
	}
}
