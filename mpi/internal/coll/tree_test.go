package coll

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// partners records with which ranks a Peer exchanges messages.
type partners struct {
	Peer
	mu    *sync.Mutex
	edges map[[2]int]bool // lower rank, higher rank
}

func (p partners) record(other int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.edges[[2]int{min(p.Rank(), other), max(p.Rank(), other)}] = true
}

func (p partners) Send(dst int, b []byte) error { p.record(dst); return p.Peer.Send(dst, b) }
func (p partners) Recv(src int, b []byte) error { p.record(src); return p.Peer.Recv(src, b) }

// TestTreeEdges: the collectives of Init and Finalize use n-1 connections, and both the same.
func TestTreeEdges(t *testing.T) {
	each(t, func(t *testing.T, m *matrix, _ *rand.Rand) {
		var mu sync.Mutex
		edges := map[[2]int]bool{}
		m.run(t, func(p Peer) error {
			x := []byte{1, 2, 3, 4}
			return AllreduceTree(partners{p, &mu, edges}, x, x, add())
		})
		if len(edges) != m.n-1 {
			t.Errorf("a reduction of %d ranks uses the connections %v", m.n, edges)
		}
		m.run(t, func(p Peer) error { return BarrierTree(partners{p, &mu, edges}) })
		if len(edges) != m.n-1 {
			t.Errorf("with a barrier of %d ranks the connections are %v", m.n, edges)
		}
	})
}
