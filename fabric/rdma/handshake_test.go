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
	joined   pair // the peer's, to which ours is connected
}

func (s *side) makePair() pair {
	s.nextPair++
	return pair{s.self<<16 | s.nextPair, s.nextPair}
}

func (s *side) greeting(kind said, asked pair) greeting {
	g := greeting{kind: kind, from: s.self, to: s.peer, size: 2, epoch: s.epoch, rails: 1, asked: asked}
	g.mine, g.theirs = s.mine, s.theirs
	g.pairs[0] = s.own
	return g
}

// act acts on a greeting as a domain does, and returns the answer, if any.
func (s *side) act(g *greeting) []greeting {
	switch s.hear(g) {
	case stepAnswer:
		own := s.own
		if s.phase != phaseAsking {
			own = s.makePair()
		}
		s.joined = g.pairs[0]
		s.answered(g, own)
		return []greeting{s.greeting(saidAnswer, g.pairs[0])}
	case stepRepeat:
		return []greeting{s.greeting(saidAnswer, g.pairs[0])}
	case stepUp:
		s.joined = g.pairs[0]
		s.up(g.pairs[0])
	}
	return nil
}

func newSides() [2]*side {
	return [2]*side{
		{handshake: handshake{self: 0, peer: 1, mine: 100, theirs: 200}},
		{handshake: handshake{self: 1, peer: 0, mine: 200, theirs: 100}},
	}
}

// TestHandshakeConverges: over a network that loses, repeats and reorders, both sides end connected to each other's queue
// pairs, however often the connection breaks, and whoever asks.
func TestHandshakeConverges(t *testing.T) {
	seed := rand.Uint64()
	for run := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, run))
		sides := newSides()
		var net []greeting
		for round := range 5 {
			breaks(r, sides, &net, round)
			if !converge(r, sides, &net) {
				t.Fatalf("seed %d run %d round %d: %+v and %+v", seed, run, round, *sides[0], *sides[1])
			}
		}
	}
}

// breaks has one side or both find the connection broken, and ask.
func breaks(r *rand.Rand, sides [2]*side, net *[]greeting, round int) {
	who := 1 + r.IntN(3)
	for i, s := range sides {
		if who>>i&1 == 0 {
			continue
		}
		if round > 0 {
			s.broken()
		}
		s.ask(s.makePair())
		*net = append(*net, s.greeting(saidAsk, pair{}))
	}
}

// converge runs the network until both sides are connected to each other.
func converge(r *rand.Rand, sides [2]*side, net *[]greeting) bool {
	for range 10_000 {
		// The first message over the connection tells who answered. It arrives if both pairs are connected to each other.
		for i, s := range sides {
			o := sides[1-i]
			if s.phase == phaseUp && o.phase == phaseAnswered && s.joined == o.own && o.joined == s.own && r.IntN(3) == 0 {
				o.up(o.other)
			}
			if s.phase == phaseAsking && r.IntN(4) == 0 {
				*net = append(*net, s.greeting(saidAsk, pair{}))
			}
		}
		if a, b := sides[0], sides[1]; a.phase == phaseUp && b.phase == phaseUp {
			return a.joined == b.own && b.joined == a.own && a.epoch == b.epoch
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
	good := greeting{kind: saidAsk, from: 1, to: 0, size: 2, epoch: 1, mine: 200, theirs: 100, rails: 1}
	for name, change := range map[string]func(*greeting){
		"of an earlier run":   func(g *greeting) { g.mine = 199 },
		"to an earlier run":   func(g *greeting) { g.theirs = 99 },
		"from another peer":   func(g *greeting) { g.from = 2 },
		"to another peer":     func(g *greeting) { g.to = 1 },
		"of no incarnation":   func(g *greeting) { g.mine = 0 },
		"answer to nothing":   func(g *greeting) { g.kind = saidAnswer },
		"of an earlier epoch": func(g *greeting) { g.epoch = 0 },
	} {
		s := newSides()[0]
		before, g := s.handshake, good
		change(&g)
		if got := s.hear(&g); got != stepNone || s.handshake != before {
			t.Errorf("a greeting %s leads to step %d", name, got)
		}
	}
	if got := newSides()[0].hear(&good); got != stepAnswer {
		t.Errorf("a good one leads to step %d", got)
	}
}
