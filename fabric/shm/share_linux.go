package shm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	ring "github.com/ibrun/ibrun/internal/shm"
)

// pending is a segment that its first peer has made, or failed to, without having told all.
type pending struct {
	seg  *ring.Segment // nil: it could not be made
	err  error         // why
	todo []int         // peers that have not been told yet
}

func (p *pending) fd() int {
	if p.seg == nil {
		return none
	}
	return p.seg.FD()
}

func (p *pending) close() error {
	if p.seg == nil {
		return nil
	}
	return p.seg.Close()
}

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
	take := d.sock.take
	if d.armed { // what comes to one that sleeps is what wakes it, and stays there until Poll
		take = d.sock.release
	}
	fd, ok, err := take(id)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fabric.ErrAgain
	}
	seg, err := ring.Open(fd)
	if err != nil {
		drop(fd)
		return nil, err
	}
	return mapWhole(seg, bytes)
}

// pass makes the segment, or goes on passing it.
func (d *Domain) pass(id uint64, to []int, bytes int) (fabric.Segment, error) {
	p := d.segs[id]
	if p == nil {
		p = &pending{todo: slices.Clone(to)}
		p.seg, p.err = ring.Create(int64(bytes))
		d.segs[id] = p
	}
	for len(p.todo) != 0 {
		ok, err := d.sock.sendSegment(address(d.key, p.todo[0]), id, p.fd())
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
	if p.err != nil {
		return nil, p.err
	}
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
