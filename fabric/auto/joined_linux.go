package auto

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// rare is how many polls there are for one of a domain that has told nothing lately: polling a network takes a system
// call, and shared memory is polled a hundred times meanwhile.
const rare = 64

// joined is one domain made of several, each of which reaches some of the peers. Its endpoints are theirs, so that sending
// costs nothing more.
type joined struct {
	parts []part
	near  int    // index of shared memory in parts, which is polled every time; -1: none
	hot   int    // of the one that told something last
	turns uint   // polls so far
	slept bool   // armed, and not polled since
	bed   int    // epoll descriptor that watches those of the parts
	fds   []int  // that it watches, by part; -1: none yet
	reach []int8 // by peer: index of its part, -1 until connected
	addr  []byte
}

// part is one of the domains.
type part struct {
	fabric.Domain
	name    string
	reaches func(peer int) bool // of those that have this transport; nil: all
}

var _ interface {
	fabric.Domain
	fabric.Router
} = (*joined)(nil)

// sharing is a joined domain with shared memory among its parts.
type sharing struct {
	*joined
	share fabric.SharedMemory
	pair  fabric.CooperativeCopier // nil if there are no words
}

var _ interface {
	fabric.SharedMemory
	fabric.CooperativeCopier
} = (*sharing)(nil)

// join makes one domain of parts, the best first: a peer is reached by the first that can.
func join(size int, parts []part) (fabric.Domain, error) {
	d := &joined{parts: parts, near: -1, fds: make([]int, len(parts)), reach: make([]int8, size)}
	for i := range d.reach {
		d.reach[i] = -1
	}
	for i, p := range parts {
		d.fds[i] = -1
		d.addr = appendCard(d.addr, p.name, p.Addr())
		if _, ok := p.Domain.(fabric.SharedMemory); ok && d.near < 0 {
			d.near = i
		}
	}
	var err error
	d.bed, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a descriptor to sleep on: %w", err)
	}
	if d.near < 0 {
		return d, nil
	}
	s := &sharing{joined: d, share: parts[d.near].Domain.(fabric.SharedMemory)}
	s.pair, _ = parts[d.near].Domain.(fabric.CooperativeCopier)
	return s, nil
}

// Addr holds the addresses of all parts.
func (d *joined) Addr() []byte { return d.addr }

// Caps are those of the first part. What holds for a peer is said by its Route.
func (d *joined) Caps() fabric.Caps { return d.parts[0].Caps() }

// Register registers with the first part. What a peer is to read or write is registered with its Route.
func (d *joined) Register(b []byte) (fabric.Region, error) { return d.parts[0].Register(b) }

// Deregister undoes Register.
func (d *joined) Deregister(r fabric.Region) error { return d.parts[0].Deregister(r) }

// Route is the part that reaches a connected peer. Of one that is not connected it is not known which transports it has: the
// first part that would reach it stands for what it sends.
func (d *joined) Route(peer int) fabric.Domain {
	i := int(d.reach[peer])
	if i < 0 {
		i = max(0, slices.IndexFunc(d.parts, func(p part) bool { return p.reaches == nil || p.reaches(peer) }))
	}
	return d.parts[i].Domain
}

// Routes are all parts.
func (d *joined) Routes() []fabric.Domain {
	ds := make([]fabric.Domain, len(d.parts))
	for i, p := range d.parts {
		ds[i] = p.Domain
	}
	return ds
}

// Connect takes the first part that reaches the peer.
func (d *joined) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	switch {
	case d.bed < 0:
		return nil, fabric.ErrClosed
	case peer < 0 || peer >= len(d.reach):
		return nil, fmt.Errorf("connect to peer %d of %d", peer, len(d.reach))
	}
	i, at, err := d.choose(peer, addr)
	if err != nil {
		return nil, err
	}
	d.reach[peer] = int8(i)
	return d.parts[i].Connect(peer, at)
}

// choose finds the first part that reaches a peer, and the peer's address there.
func (d *joined) choose(peer int, addr []byte) (i int, at []byte, err error) {
	addrs, err := parseCard(addr)
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

// Choice is the transport to a peer with that address, before or after Connect.
func (d *joined) Choice(peer int, addr []byte) (string, error) {
	i, _, err := d.choose(peer, addr)
	if err != nil {
		return "", err
	}
	return d.parts[i].name, nil
}

// Poll polls shared memory and whatever told something last, and the others now and then.
func (d *joined) Poll(evs []fabric.Event) (int, error) {
	d.turns++
	all := d.slept || d.turns%rare == 0
	d.slept = false
	n := 0
	for i := range d.parts {
		if !all && i != d.near && i != d.hot {
			continue
		}
		k, err := d.parts[i].Poll(evs[n:])
		if n += k; err != nil {
			return n, fmt.Errorf("%s: %w", d.parts[i].name, err)
		}
		if k != 0 && i != d.near {
			d.hot = i
		}
	}
	return n, nil
}

// Arm arms all parts.
func (d *joined) Arm() (int, bool, error) {
	d.slept = true
	for i, p := range d.parts {
		fd, ready, err := p.Arm()
		if err != nil || ready {
			return d.bed, ready, err
		}
		if fd == d.fds[i] {
			continue
		}
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
		if err := unix.EpollCtl(d.bed, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return -1, false, fmt.Errorf("sleep on %s: %w", p.name, err)
		}
		d.fds[i] = fd
	}
	return d.bed, false, nil
}

// Segment is shared memory's, for peers that it reaches.
func (d *sharing) Segment(id uint64, peers []int, bytes int) (fabric.Segment, error) {
	reaches := d.parts[d.near].reaches
	for _, p := range peers {
		if reaches != nil && !reaches(p) {
			return nil, fmt.Errorf("%w: peer %d is on another node, which shares no memory with this one",
				fabric.ErrNotSupported, p)
		}
	}
	return d.share.Segment(id, peers, bytes)
}

// Wake wakes a peer that shares memory.
func (d *sharing) Wake(peer int) { d.share.Wake(peer) }

// Words are those of shared memory; peers that are reached otherwise have none.
func (d *sharing) Words(peer int, inbound bool) []uint64 {
	if d.pair == nil || peer < 0 || peer >= len(d.reach) || int(d.reach[peer]) != d.near {
		return nil
	}
	return d.pair.Words(peer, inbound)
}

// Close closes all parts.
func (d *joined) Close() error {
	errs := make([]error, 0, len(d.parts)+1)
	for _, p := range d.parts {
		errs = append(errs, p.Close())
	}
	if d.bed >= 0 {
		errs = append(errs, unix.Close(d.bed))
		d.bed = -1
	}
	return errors.Join(errs...)
}
