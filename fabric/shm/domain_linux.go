package shm

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/memaddr"
	ring "github.com/ibrun/ibrun/internal/shm"
	"github.com/ibrun/ibrun/internal/wakesock"
)

// Domain is one peer's membership in a node. Peers are numbered as in fabric.Config in the interface. Inside, they have local
// numbers: their index in local. One goroutine at a time uses a domain, and no lock is needed.
type Domain struct {
	local      []int // numbers of the peers, by local number
	selfIndex  int   // this peer's local number
	caps       fabric.Caps
	largest    int    // space of a ring to a peer, at most
	stores     Stores // kind of stores for these rings
	pidns      uint64 // inode of this process's pid namespace
	canBarrier bool   // this process can make the others pass a barrier (membarrier)
	sock       *socket
	senders    *senders
	seg        *ring.Segment              // of the node
	controlMem []byte                     // the control blocks, mapped
	controls   []*control                 // by local number
	self       *control                   // this peer's control block; nil: closed
	endpoints  []*endpoint                // by local number, nil: not connected
	largeRings int                        // how many of their rings have grown to the largest space because of many long messages
	passing    map[uint64]*passingSegment // segments that this peer is still passing to others, by id
	populate   func([]byte) error         // ring.Populate
	fenceWord  atomic.Uint32              // target of fence, never read

	watcher  *wakesock.Watcher       // calls peerEnded
	ended    []atomic.Uint64         // bitmap of the local numbers of peers that have ended; peerEnded sets bits
	notified atomic.Pointer[control] // self for peerEnded, once it is mapped

	inbounds    inboundRings
	toPrefetch  *endpoint      // list of endpoints whose ring is prefetched when nothing else is to do, linked by nextPrefetch
	lastSentTo  int            // local number of the peer of the last Send
	answerPolls int            // number of Polls for which its answer is still expected; 0 after a message
	changesSeen uint64         // value of self.changes in the last checkChanges
	down        []bool         // by local number: the peer has been reported as down, or its endpoint was closed here
	downEvents  []fabric.Event // PeerDown events for the next Poll
	armed       bool           // Arm was called after the last Poll
	slowPoll    bool           // Poll has to check more than messages: the domain is armed or closed, or a peer closed or is lost
}

// inboundRings are the rings that this peer reads.
type inboundRings struct {
	from     []*inbound // by local number, nil: no ring from that peer
	all      []*inbound // those that Poll reads, in the order in which they were found
	next     int        // index in all where the next Poll begins
	borrowed *inbound   // list of those whose records of the last Poll are not released yet, linked by nextBorrowed
}

// inbound is a ring that this peer reads.
type inbound struct {
	r            *ring.Reader
	mem          []byte   // of the ring
	populated    int      // populateSpace was called for so many bytes of its space; smallSpace: not yet
	from         int      // local number of the writer
	peer         int32    // number of the writer
	borrowed     bool     // in Domain.inbounds.borrowed
	nextBorrowed *inbound // next element of that list
	flags        *uint32  // of the writer, which may sleep until there is room
	fence        bool     // execute a fence between releasing room and loading the flags
	wasEmpty     bool     // the last Poll found nothing here
	closed       bool     // the writer has closed or ended; records that remain are still delivered
	endedErr     error    // with closed: the writer has ended without closing
}

var (
	_ fabric.Domain            = (*Domain)(nil)
	_ fabric.SharedMemory      = (*Domain)(nil)
	_ fabric.CooperativeCopier = (*Domain)(nil)
)

// Addr returns nil: the address of a peer follows from its number and the job's key.
func (d *Domain) Addr() []byte { return nil }

// Caps returns the limits.
func (d *Domain) Caps() fabric.Caps { return d.caps }

// Register returns the address of b as its key.
func (d *Domain) Register(b []byte) (fabric.Region, error) {
	return fabric.Region{Remote: fabric.RemoteKey{Addr: memaddr.Of(b)}}, nil
}

// Deregister has nothing to undo.
func (d *Domain) Deregister(fabric.Region) error { return nil }

// Connect makes the ring to a peer. The peer maps it when it finds this peer's bit in its connectedFrom.
func (d *Domain) Connect(peer int, _ []byte) (fabric.Endpoint, error) {
	if d.self == nil {
		return nil, fabric.ErrClosed
	}
	to, ok := slices.BinarySearch(d.local, peer)
	if !ok {
		return nil, fmt.Errorf("shm: peer %d is not on this node", peer)
	}
	if e := d.endpoints[to]; e != nil {
		return e, nil
	}
	mem, err := d.mapRing(d.selfIndex, to)
	if err != nil {
		return nil, fmt.Errorf("shm: connect to peer %d: %w", peer, err)
	}
	w, err := ring.NewWriter(mem, maxPayload+maxHeader)
	if err != nil {
		return nil, errors.Join(err, ring.Unmap(mem))
	}
	w.SetCapacity(smallSpace)
	w.UseStores(ring.Stores(d.stores))
	e := &endpoint{w: w, d: d, control: d.controls[to], flags: &d.controls[to].flags, mem: mem, to: to, fence: true}
	if d.down[to] {
		e.endErr.Store(&errDown)
	}
	d.endpoints[to] = e
	d.senders.request(to, false)
	d.notify(to, &d.controls[to].connectedFrom)
	if d.hasEnded(to) {
		d.endOf(to)
	}
	return e, nil
}

// mapRing allocates the first memory of the ring from one peer to another, and maps the ring.
func (d *Domain) mapRing(from, to int) ([]byte, error) {
	at := ringOffset(from, to, len(d.local))
	if err := d.seg.Allocate(at, ringBytes(smallSpace)); err != nil {
		return nil, err
	}
	return d.seg.Reserve(at, ringBytes(largeSpace))
}

// Words returns words of the page that the ring to or from a peer begins with.
func (d *Domain) Words(peer int, inbound bool) []uint64 {
	to, ok := slices.BinarySearch(d.local, peer)
	switch {
	case d.self == nil:
	case ok && inbound && d.inbounds.from[to] != nil:
		return ring.Words(d.inbounds.from[to].mem)
	case ok && !inbound && d.endpoints[to] != nil:
		return ring.Words(d.endpoints[to].mem)
	}
	return nil
}

// Close notifies all connected peers and unmaps everything.
func (d *Domain) Close() error {
	var errs []error
	if d.watcher != nil {
		errs = append(errs, d.watcher.Close())
		d.watcher = nil
	}
	if d.self != nil {
		atomic.OrUint32(&d.self.flags, closed)
		for to := range d.local {
			// A peer that connects after this load sees the flag when it sends.
			connected := atomic.LoadUint64(&d.self.connectedFrom[to/64])>>(to%64)&1 != 0
			if to != d.selfIndex && (d.endpoints[to] != nil || connected) {
				d.notify(to, &d.controls[to].closedFrom)
			}
		}
		d.self, d.slowPoll = nil, true
	}
	for i := range d.local {
		if e := d.endpoints[i]; e != nil {
			errs = append(errs, e.unmap())
		}
		if in := d.inbounds.from[i]; in != nil {
			errs = append(errs, ring.Unmap(in.mem))
			d.inbounds.from[i] = nil
		}
	}
	for _, p := range d.passing {
		errs = append(errs, p.close())
	}
	clear(d.passing)
	d.inbounds.all, d.inbounds.borrowed, d.toPrefetch = nil, nil, nil
	if d.controlMem != nil {
		errs = append(errs, ring.Unmap(d.controlMem))
		d.controlMem = nil
	}
	if d.seg != nil {
		errs = append(errs, d.seg.Close())
	}
	if d.sock != nil {
		errs = append(errs, d.sock.close(), d.senders.close())
		d.sock = nil
	}
	return errors.Join(errs...)
}
