package auto

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// idlePollInterval is the number of polls of the combined domain for one poll of a part without recent events: polling a network
// takes a system call, during which shared memory could be polled a hundred times.
const idlePollInterval = 64

// combined is one domain made of several parts, each of which reaches some of the peers. Its endpoints are those of the parts,
// so that sending costs nothing more.
type combined struct {
	parts   []part
	shm     int    // index in parts of shared memory, which is polled every time; -1: none
	active  int    // index in parts of the one that had an event last
	polls   uint   // polls so far
	armed   bool   // Arm was called, and Poll was not called since
	epfd    int    // epoll descriptor; watches the descriptors of the parts
	watched []int  // descriptors that epfd watches, by part; -1: none yet
	partOf  []int8 // by peer: index of its part, -1 until connected
	addr    []byte
}

// part is one of the domains of a combined domain.
type part struct {
	fabric.Domain
	name    string
	reaches func(peer int) bool // whether a peer that has this transport is reached; nil: always
}

var _ interface {
	fabric.Domain
	fabric.Router
} = (*combined)(nil)

// combinedSharing is a combined domain with shared memory among its parts.
type combinedSharing struct {
	*combined
	memory fabric.SharedMemory
	copier fabric.CooperativeCopier // nil if shared memory is not a fabric.CooperativeCopier
}

var _ interface {
	fabric.SharedMemory
	fabric.CooperativeCopier
} = (*combinedSharing)(nil)

// combine makes one domain of parts, which are in order of preference: a peer is reached by the first part that can reach it.
func combine(size int, parts []part) (fabric.Domain, error) {
	d := &combined{parts: parts, shm: -1, watched: make([]int, len(parts)), partOf: make([]int8, size)}
	for i := range d.partOf {
		d.partOf[i] = -1
	}
	for i, p := range parts {
		d.watched[i] = -1
		d.addr = appendAddress(d.addr, p.name, p.Addr())
		if _, ok := p.Domain.(fabric.SharedMemory); ok && d.shm < 0 {
			d.shm = i
		}
	}
	var err error
	d.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create an epoll descriptor: %w", err)
	}
	if d.shm < 0 {
		return d, nil
	}
	s := &combinedSharing{combined: d, memory: parts[d.shm].Domain.(fabric.SharedMemory)}
	s.copier, _ = parts[d.shm].Domain.(fabric.CooperativeCopier)
	return s, nil
}

// Addr returns the addresses of all parts.
func (d *combined) Addr() []byte { return d.addr }

// Caps returns those of the first part. Those that hold for a peer are the Caps of its Route.
func (d *combined) Caps() fabric.Caps { return d.parts[0].Caps() }

// Register registers with the first part. Memory that a peer will read or write is registered with the Route of the peer.
func (d *combined) Register(b []byte) (fabric.Region, error) { return d.parts[0].Register(b) }

// Deregister undoes Register.
func (d *combined) Deregister(r fabric.Region) error { return d.parts[0].Deregister(r) }

// Route returns the part that reaches a connected peer. It is not known which transports an unconnected peer has: Route then
// returns the first part that may reach it.
func (d *combined) Route(peer int) fabric.Domain {
	i := int(d.partOf[peer])
	if i < 0 {
		i = max(0, slices.IndexFunc(d.parts, func(p part) bool { return p.reaches == nil || p.reaches(peer) }))
	}
	return d.parts[i].Domain
}

// Routes returns all parts.
func (d *combined) Routes() []fabric.Domain {
	ds := make([]fabric.Domain, len(d.parts))
	for i, p := range d.parts {
		ds[i] = p.Domain
	}
	return ds
}

// Connect connects through the first part that reaches the peer.
func (d *combined) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	switch {
	case d.epfd < 0:
		return nil, fabric.ErrClosed
	case peer < 0 || peer >= len(d.partOf):
		return nil, fmt.Errorf("connect to peer %d of %d", peer, len(d.partOf))
	}
	i, at, err := d.findPart(peer, addr)
	if err != nil {
		return nil, err
	}
	d.partOf[peer] = int8(i)
	return d.parts[i].Connect(peer, at)
}

// findPart returns the first part that reaches a peer, and the peer's address there.
func (d *combined) findPart(peer int, addr []byte) (i int, at []byte, err error) {
	addrs, err := parseAddresses(addr)
	if err != nil {
		return 0, nil, fmt.Errorf("address of peer %d: %w", peer, err)
	}
	for i, p := range d.parts {
		at, ok := addrs[p.name]
		if ok && (p.reaches == nil || p.reaches(peer)) {
			return i, at, nil
		}
	}
	return 0, nil, fmt.Errorf("%w: this process and peer %d have no transport in common", fabric.ErrNotSupported, peer)
}

// Choice returns the transport to a peer with that address, before or after Connect.
func (d *combined) Choice(peer int, addr []byte) (string, error) {
	i, _, err := d.findPart(peer, addr)
	if err != nil {
		return "", err
	}
	return d.parts[i].name, nil
}

// Poll polls shared memory and the part that had an event last, and the others every idlePollInterval calls.
func (d *combined) Poll(evs []fabric.Event) (int, error) {
	d.polls++
	all := d.armed || d.polls%idlePollInterval == 0
	d.armed = false
	n := 0
	for i := range d.parts {
		if !all && i != d.shm && i != d.active {
			continue
		}
		k, err := d.parts[i].Poll(evs[n:])
		if n += k; err != nil {
			return n, fmt.Errorf("%s: %w", d.parts[i].name, err)
		}
		if k != 0 && i != d.shm {
			d.active = i
		}
	}
	return n, nil
}

// Arm arms all parts.
func (d *combined) Arm() (int, bool, error) {
	d.armed = true
	for i, p := range d.parts {
		fd, ready, err := p.Arm()
		if err != nil || ready {
			return d.epfd, ready, err
		}
		if fd == d.watched[i] {
			continue
		}
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
		if err := unix.EpollCtl(d.epfd, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return -1, false, fmt.Errorf("sleep on %s: %w", p.name, err)
		}
		d.watched[i] = fd
	}
	return d.epfd, false, nil
}

// Segment maps a segment of shared memory, for peers that it reaches.
func (d *combinedSharing) Segment(id uint64, peers []int, bytes int) (fabric.Segment, error) {
	reaches := d.parts[d.shm].reaches
	for _, p := range peers {
		if reaches != nil && !reaches(p) {
			return nil, fmt.Errorf("%w: peer %d is on another node, which shares no memory with this one",
				fabric.ErrNotSupported, p)
		}
	}
	return d.memory.Segment(id, peers, bytes)
}

// Wake wakes a peer that shares memory.
func (d *combinedSharing) Wake(peer int) { d.memory.Wake(peer) }

// Words returns those of shared memory, and nil for peers that are reached by another part.
func (d *combinedSharing) Words(peer int, inbound bool) []uint64 {
	if d.copier == nil || peer < 0 || peer >= len(d.partOf) || int(d.partOf[peer]) != d.shm {
		return nil
	}
	return d.copier.Words(peer, inbound)
}

// Close closes all parts.
func (d *combined) Close() error {
	errs := make([]error, 0, len(d.parts)+1)
	for _, p := range d.parts {
		errs = append(errs, p.Close())
	}
	if d.epfd >= 0 {
		errs = append(errs, unix.Close(d.epfd))
		d.epfd = -1
	}
	return errors.Join(errs...)
}
