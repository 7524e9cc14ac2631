package mem

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/ibrun/ibrun/fabric"
)

// alignment of a segment, in bytes.
const alignment = 128

// pendingSegment is a segment that not all of its peers have mapped yet. When they have, the hub removes it, and the
// garbage collector frees the memory after the last of them has closed it.
type pendingSegment struct {
	peers   []int
	mem     []byte
	missing []int // peers that have neither mapped it nor ended
}

// segment is one peer's reference to shared memory.
type segment struct{ mem []byte }

func (s *segment) Bytes() []byte { return s.mem }

// Allocate does nothing: all of the memory has been allocated.
func (*segment) Allocate([]byte) error { return nil }

// NeedsFence reports true: the goroutines of one process do not pass barriers for each other.
func (*segment) NeedsFence() bool { return true }

func (s *segment) Close() error {
	s.mem = nil
	return nil
}

func (d *domain) Wake(peer int) { d.hub.inboxes[peer].wakeIfArmed() }

func (d *domain) Segment(id uint64, peers []int, bytes int) (fabric.Segment, error) {
	if err := d.checkUsable(); err != nil {
		return nil, err
	}
	if !slices.Contains(peers, d.self) || bytes <= 0 || !slices.IsSorted(peers) || peers[0] < 0 ||
		peers[len(peers)-1] >= len(d.hub.inboxes) {
		return nil, fmt.Errorf("fabric/mem: segment %d: %d bytes for peers %v at peer %d", id, bytes, peers, d.self)
	}
	mem, err := d.hub.mapSegment(id, d.self, peers, bytes)
	if err != nil {
		return nil, fmt.Errorf("fabric/mem: segment %d: %w", id, err)
	}
	return &segment{mem}, nil
}

// mapSegment returns the memory of a segment. The first of its peers allocates it.
func (h *Hub) mapSegment(id uint64, self int, peers []int, bytes int) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.pending[id]
	if g == nil {
		gone := func(p int) bool { return h.inboxes[p].down.Load() != nil }
		g = &pendingSegment{
			peers:   slices.Clone(peers),
			mem:     aligned(bytes),
			missing: slices.DeleteFunc(slices.Clone(peers), gone),
		}
		h.pending[id] = g
	}
	if len(g.mem) != bytes || !slices.Equal(g.peers, peers) {
		return nil, fmt.Errorf("peer %d asks for %d bytes with peers %v, another for %d bytes with %v", self,
			bytes, peers, len(g.mem), g.peers)
	}
	if !slices.Contains(g.missing, self) {
		return nil, fmt.Errorf("peer %d has already mapped it; of peers %v these have not: %v", self, peers, g.missing)
	}
	h.markDone(id, g, self)
	return g.mem, nil
}

// markDone removes a peer from those that have not mapped the segment. The caller must hold h.mu.
func (h *Hub) markDone(id uint64, g *pendingSegment, peer int) {
	g.missing = slices.DeleteFunc(g.missing, func(p int) bool { return p == peer })
	if len(g.missing) == 0 {
		delete(h.pending, id)
	}
}

// leaveSegments removes a peer that has ended from all pending segments.
func (h *Hub) leaveSegments(peer int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, g := range h.pending {
		h.markDone(id, g, peer)
	}
}

// aligned returns n zeroed bytes at an aligned address. Heap objects do not move.
func aligned(n int) []byte {
	b := make([]byte, n+alignment-1)
	off := int(-reflect.ValueOf(b).Pointer() % alignment)
	return b[off:][:n:n]
}
