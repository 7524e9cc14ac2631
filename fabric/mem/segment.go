package mem

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/ibrun/ibrun/fabric"
)

// alignment of a segment, in bytes.
const alignment = 128

// gathering is a segment that not all of its peers have fetched yet. Once they have, the hub forgets it, and the
// garbage collector frees the memory when the last of them has closed it.
type gathering struct {
	peers []int
	mem   []byte
	todo  []int // peers that have neither fetched it nor ended
}

// segment is a peer's hold on shared memory.
type segment struct{ mem []byte }

func (s *segment) Bytes() []byte { return s.mem }

func (s *segment) Close() error {
	s.mem = nil
	return nil
}

func (d *domain) Wake(peer int) { d.hub.inboxes[peer].rouse() }

func (d *domain) Segment(id uint64, peers []int, bytes int) (fabric.Segment, error) {
	if err := d.broken(); err != nil {
		return nil, err
	}
	if !slices.Contains(peers, d.self) || bytes <= 0 || !slices.IsSorted(peers) || peers[0] < 0 ||
		peers[len(peers)-1] >= len(d.ways) {
		return nil, fmt.Errorf("fabric/mem: segment %d: %d bytes for peers %v at peer %d", id, bytes, peers, d.self)
	}
	mem, err := d.hub.fetch(id, d.self, peers, bytes)
	if err != nil {
		return nil, fmt.Errorf("fabric/mem: segment %d: %w", id, err)
	}
	return &segment{mem}, nil
}

// fetch returns the memory of a segment, which its first peer makes.
func (h *Hub) fetch(id uint64, self int, peers []int, bytes int) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.gathering[id]
	if g == nil {
		gone := func(p int) bool { return h.inboxes[p].gone.Load() != nil }
		g = &gathering{
			peers: slices.Clone(peers),
			mem:   aligned(bytes),
			todo:  slices.DeleteFunc(slices.Clone(peers), gone),
		}
		h.gathering[id] = g
	}
	if len(g.mem) != bytes || !slices.Equal(g.peers, peers) {
		return nil, fmt.Errorf("peer %d wants %d bytes with %v, another %d with %v", self, bytes, peers, len(g.mem), g.peers)
	}
	if !slices.Contains(g.todo, self) {
		return nil, fmt.Errorf("peer %d has it already, and of %v there are still %v to come", self, peers, g.todo)
	}
	h.settle(id, g, self)
	return g.mem, nil
}

// settle notes that there is nothing left to do for a peer. The caller holds h.mu.
func (h *Hub) settle(id uint64, g *gathering, peer int) {
	g.todo = slices.DeleteFunc(g.todo, func(p int) bool { return p == peer })
	if len(g.todo) == 0 {
		delete(h.gathering, id)
	}
}

// excuse settles all segments that a peer which has ended will not come to.
func (h *Hub) excuse(peer int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, g := range h.gathering {
		h.settle(id, g, peer)
	}
}

// aligned returns n zeroed bytes at an aligned address. Heap objects do not move.
func aligned(n int) []byte {
	b := make([]byte, n+alignment-1)
	off := int(-reflect.ValueOf(b).Pointer() % alignment)
	return b[off:][:n:n]
}
