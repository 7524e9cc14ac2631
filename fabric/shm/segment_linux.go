package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/fdpass"
	"github.com/ibrun/ibrun/internal/memaddr"
	ring "github.com/ibrun/ibrun/internal/shm"
)

// passingSegment is a segment that this peer, the first of its peers, has created or failed to create, while some of the others
// have not been notified.
type passingSegment struct {
	seg    *ring.Segment // nil: it could not be created
	err    error         // why
	unsent []int         // peers that have not been notified yet
}

func (p *passingSegment) fd() int {
	if p.seg == nil {
		return noFD
	}
	return p.seg.FD()
}

func (p *passingSegment) close() error {
	if p.seg == nil {
		return nil
	}
	return p.seg.Close()
}

// sharedSegment is a mapped segment.
type sharedSegment struct {
	mem   []byte
	d     *Domain
	peers []int
	whole bool         // all of it has been allocated
	open  sync.RWMutex // Allocate reads mem, Close ends it
}

var _ interface {
	fabric.Segment
	fabric.PeerMemory
} = (*sharedSegment)(nil)

func (s *sharedSegment) Bytes() []byte { return s.mem }

// Allocate allocates the pages of a part, unless the kernel can only allocate all of them.
func (s *sharedSegment) Allocate(part []byte) error {
	if s.whole || len(part) == 0 {
		return nil
	}
	s.open.RLock()
	defer s.open.RUnlock()
	if s.mem == nil {
		return fabric.ErrClosed
	}
	from := int(memaddr.Of(part) - memaddr.Of(s.mem))
	return s.d.populate(s.mem[from-from%os.Getpagesize() : from+len(part)])
}

// NeedsFence reports whether this process cannot take part in barriers, or any of the others cannot request them.
func (s *sharedSegment) NeedsFence() bool {
	return !s.d.canBarrier || slices.ContainsFunc(s.peers, func(peer int) bool {
		c := s.d.controls[slices.Index(s.d.local, peer)]
		return atomic.LoadUint32(&c.opened) == 0 || c.needsFence != 0
	})
}

func (s *sharedSegment) Close() error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.mem == nil {
		return nil
	}
	mem := s.mem
	s.mem = nil
	return ring.Unmap(mem)
}

// Process returns the process id.
func (*sharedSegment) Process() uint64 { return uint64(os.Getpid()) }

// Address returns the address of b in this process.
func (*sharedSegment) Address(b []byte) uint64 { return memaddr.Of(b) }

// Read copies from the memory of another process.
func (*sharedSegment) Read(process uint64, dst []byte, addr uint64) error {
	return copyProcessMemory(unix.SYS_PROCESS_VM_READV, int(process), dst, addr)
}

// Segment maps memory shared by peers; the first of them creates it. The id 0 is reserved for the node's segment.
func (d *Domain) Segment(id uint64, peers []int, bytes int) (fabric.Segment, error) {
	if d.self == nil {
		return nil, fabric.ErrClosed
	}
	if id == nodeSegmentID || bytes <= 0 || !slices.IsSorted(peers) || !slices.Contains(peers, d.local[d.selfIndex]) {
		return nil, fmt.Errorf("shm: invalid segment: id %d, %d bytes, peers %v", id, bytes, peers)
	}
	for _, p := range peers {
		if _, ok := slices.BinarySearch(d.local, p); !ok {
			return nil, fmt.Errorf("shm: peer %d is not on this node", p)
		}
	}
	if peers[0] == d.local[d.selfIndex] {
		return d.createAndPass(id, peers, bytes)
	}
	take := d.sock.takeSegment
	if d.armed { // the datagrams wake this peer: they stay in the socket until Poll
		take = d.sock.takeReceived
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
		fdpass.Discard(fd)
		return nil, err
	}
	return d.mapAndClose(seg, peers, bytes)
}

// createAndPass creates the segment and passes it to the other peers, or continues passing it.
func (d *Domain) createAndPass(id uint64, peers []int, bytes int) (fabric.Segment, error) {
	p, to := d.passing[id], peers[1:]
	if p == nil {
		p = &passingSegment{unsent: slices.Clone(to)}
		p.seg, p.err = ring.Create(int64(bytes))
		d.passing[id] = p
		for _, peer := range to {
			d.senders.request(slices.Index(d.local, peer), false)
		}
	}
	for len(p.unsent) != 0 {
		ok, err := d.senders.sendSegment(slices.Index(d.local, p.unsent[0]), id, p.fd())
		if err != nil {
			delete(d.passing, id)
			return nil, errors.Join(fmt.Errorf("shm: pass a segment to peer %d: %w", p.unsent[0], err), p.close())
		}
		if !ok {
			return nil, fabric.ErrAgain
		}
		p.unsent = p.unsent[1:]
	}
	delete(d.passing, id)
	if p.err != nil {
		return nil, p.err
	}
	return d.mapAndClose(p.seg, peers, bytes)
}

// mapAndClose maps a segment and closes its descriptor. It allocates the first page. If that needs a newer kernel, it allocates
// the whole segment, as only the descriptor can do that.
func (d *Domain) mapAndClose(seg *ring.Segment, peers []int, bytes int) (_ fabric.Segment, err error) {
	defer func() { err = errors.Join(err, seg.Close()) }()
	mem, err := seg.Reserve(0, bytes)
	if err != nil {
		return nil, err
	}
	err = d.populate(mem[:min(bytes, os.Getpagesize())])
	whole := err == unix.EINVAL
	if whole {
		err = seg.Allocate(0, bytes)
	}
	if err != nil {
		return nil, errors.Join(err, ring.Unmap(mem))
	}
	return &sharedSegment{mem: mem, d: d, peers: slices.Clone(peers), whole: whole}, nil
}

// nodeSegment creates the node's segment and passes it on, or receives it from the first peer.
func (d *Domain) nodeSegment(ctx context.Context) (*ring.Segment, error) {
	want := segmentSize(len(d.local))
	if d.selfIndex != 0 {
		fd, err := d.awaitSegment(ctx, nodeSegmentID)
		if err != nil {
			return nil, err
		}
		seg, err := ring.Open(fd)
		if err != nil {
			fdpass.Discard(fd)
			return nil, err
		}
		if seg.Size() != want {
			return nil, errors.Join(fmt.Errorf("shm: the segment of this node has %d bytes instead of %d: do all processes run "+
				"the same program?", seg.Size(), want), seg.Close())
		}
		return seg, nil
	}
	seg, err := ring.Create(want)
	if err != nil {
		return nil, err
	}
	if err := d.sendNodeSegment(ctx, seg.FD()); err != nil {
		return nil, errors.Join(err, seg.Close())
	}
	return seg, nil
}

// nodeSegmentID is the id of the node's segment in datagrams. Segments of callers have other ids.
const nodeSegmentID = 0
