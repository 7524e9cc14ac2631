package shm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	ring "github.com/ibrun/ibrun/internal/shm"
)

// pending is a segment that its first peer has made and not yet passed to all.
type pending struct {
	seg  *ring.Segment
	todo []int // peers that do not have it yet
}

func (p *pending) close() error { return p.seg.Close() }

// shared is a mapped segment.
type shared struct{ mem []byte }

func (s *shared) Bytes() []byte { return s.mem }

func (s *shared) Close() error {
	if s.mem == nil {
		return nil
	}
	mem := s.mem
	s.mem = nil
	return ring.Unmap(mem)
}

// Segment maps memory shared by peers; the first of them makes it. The id 0 is the domain's own.
func (d *Domain) Segment(id uint64, peers []int, bytes int) (fabric.Segment, error) {
	if d.self == nil {
		return nil, fabric.ErrClosed
	}
	if id == nodeSegment || bytes <= 0 || !slices.IsSorted(peers) || !slices.Contains(peers, d.local[d.me]) {
		return nil, fmt.Errorf("shm: segment %d of %d bytes for %v", id, bytes, peers)
	}
	for _, p := range peers {
		if _, ok := slices.BinarySearch(d.local, p); !ok {
			return nil, fmt.Errorf("shm: peer %d is not on this node", p)
		}
	}
	if peers[0] == d.local[d.me] {
		return d.pass(id, peers[1:], bytes)
	}
	fd, ok, err := d.sock.take(id)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fabric.ErrAgain
	}
	seg, err := ring.Open(fd)
	if err != nil {
		return nil, err
	}
	return mapWhole(seg, bytes)
}

// pass makes the segment, or goes on passing it.
func (d *Domain) pass(id uint64, to []int, bytes int) (fabric.Segment, error) {
	p := d.segs[id]
	if p == nil {
		seg, err := ring.Create(int64(bytes))
		if err != nil {
			return nil, err
		}
		p = &pending{seg: seg, todo: slices.Clone(to)}
		d.segs[id] = p
	}
	for len(p.todo) != 0 {
		ok, err := d.sock.sendSegment(address(d.key, p.todo[0]), id, p.seg.FD())
		if err != nil {
			delete(d.segs, id)
			return nil, errors.Join(fmt.Errorf("shm: pass a segment to peer %d: %w", p.todo[0], err), p.close())
		}
		if !ok {
			return nil, fabric.ErrAgain
		}
		p.todo = p.todo[1:]
	}
	delete(d.segs, id)
	return mapWhole(p.seg, bytes)
}

// mapWhole maps a segment and lets go of the descriptor.
func mapWhole(seg *ring.Segment, bytes int) (fabric.Segment, error) {
	mem, err := seg.Map(0, bytes)
	if err := errors.Join(err, seg.Close()); err != nil {
		return nil, err
	}
	return &shared{mem}, nil
}
