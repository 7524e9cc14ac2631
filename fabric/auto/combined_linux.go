package auto

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// idlePollInterval is the number of polls of the combined domain for one poll of a part without recent events: polling a network
// takes a system call, during which shared memory could be polled a hundred times.
const idlePollInterval = 64

// combined is one domain made of several parts, each of which reaches some of the peers. Its endpoints are those of the parts,
// so that sending costs nothing more.
type combined struct {
	self    int
	parts   []part
	shm     int    // index in parts of shared memory, which is polled every time; -1: none
	active  int    // index in parts of the one that had an event last
	polls   uint   // polls so far
	armed   bool   // Arm was called, and Poll was not called since
	epfd    int    // epoll descriptor; watches the descriptors of the parts
	watched []int  // descriptors that epfd watches, by part; -1: none yet
	partOf  []int8 // by peer: index of its part, -1 until connected
	addr    []byte

	fallback *fallback                   // nil if a peer that has RDMA is reached by nothing else
	report   func(peer int, text string) // Node.ReportPeer; not nil
	first    bool                        // this process is the first of its node
}

// part is one of the domains of a combined domain.
type part struct {
	fabric.Domain
	name    string
	reaches func(peer int) bool // whether a peer that has this transport is reached; nil: always
	// compare is set if the processes may have several parts of this transport. It returns a number that is the same at both
	// ends: the higher, the better. The error says why the part does not reach the peer with that address.
	compare func(addr []byte) (preference uint64, err error)
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

// combine makes one domain of parts, which are in order of preference: a peer is reached by the first part that can reach it, or
// by the best of several parts of one transport.
func combine(cfg *fabric.Config, parts []part, n *Node) (fabric.Domain, error) {
	d := &combined{self: cfg.Self, parts: parts, shm: -1, watched: make([]int, len(parts)), partOf: make([]int8, cfg.Size),
		report: n.ReportPeer, first: len(n.Local) == 0 || n.Local[0] == cfg.Self}
	if d.report == nil {
		d.report = func(int, string) {}
	}
	for i := range d.partOf {
		d.partOf[i] = -1
	}
	for i, p := range parts {
		d.watched[i] = -1
		if c, ok := p.Domain.(interface {
			Reach(addr []byte) (uint64, error)
		}); ok {
			parts[i].compare = c.Reach
		}
		d.addr = appendAddress(d.addr, p.name, p.Addr())
		if _, ok := p.Domain.(fabric.SharedMemory); ok && d.shm < 0 {
			d.shm = i
		}
	}
	d.fallback = newFallback(d, n)
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

// Route returns the part that reaches a connected peer, until the event Rerouted. It is not known which transports an unconnected
// peer has: Route then returns the first part that may reach it.
func (d *combined) Route(peer int) fabric.Domain {
	i := int(d.partOf[peer])
	if i < 0 && d.fallback.reaches(peer) {
		i = d.fallback.tcp
	} else if i < 0 {
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
	c, err := d.chooseAfter(peer, addr, d.fallback.givenUpByUser(peer))
	if err != nil {
		return nil, err
	}
	ep, err := d.parts[c.part].Connect(peer, c.at)
	if err != nil {
		return nil, err
	}
	if int(d.partOf[peer]) != c.part && c.refused != nil && d.first && d.self < peer {
		d.report(peer, fmt.Sprintf("%s is used instead of RDMA to process %d: %v", strings.ToUpper(d.parts[c.part].name), peer,
			c.refused))
	}
	d.partOf[peer] = int8(c.part)
	if d.fallback != nil && d.parts[c.part].compare != nil {
		d.fallback.learn(peer, addr)
	}
	return ep, nil
}

// choice is a part that reaches a peer.
type choice struct {
	part       int    // index of the part
	theirs     int    // index of the peer's part in its address
	at         []byte // address of the peer's part
	preference uint64
	refused    error // why a part that both processes have and that comes before does not reach the peer; nil if there is none
}

// choose returns the part that reaches a peer. It depends on the two addresses, and on how many choices the two processes have
// given up, so both ends choose the same.
func (d *combined) choose(peer int, addr []byte) (choice, error) {
	return d.chooseAfter(peer, addr, d.fallback.givenUp(peer))
}

// chooseAfter is choose when so many choices were given up.
func (d *combined) chooseAfter(peer int, addr []byte, given uint8) (choice, error) {
	addrs, err := parseAddresses(addr)
	if err != nil {
		return choice{part: -1}, fmt.Errorf("address of peer %d: %w", peer, err)
	}
	var without []choice
	for ; ; given-- {
		c, err := d.chooseWithout(peer, addrs, without)
		if err != nil || given == 0 || d.parts[c.part].compare == nil {
			if len(without) > 0 {
				c.refused = nil // it was reported why they were given up
			}
			return c, err
		}
		without = append(without, c)
	}
}

// chooseWithout is choose without the parts of both processes that were given up.
func (d *combined) chooseWithout(peer int, addrs []transportAddr, without []choice) (choice, error) {
	best := choice{part: -1}
	for i, p := range d.parts {
		if best.part >= 0 && p.name != d.parts[best.part].name {
			break
		}
		if p.reaches != nil && !p.reaches(peer) || slices.ContainsFunc(without, func(c choice) bool { return c.part == i }) {
			continue
		}
		for k, a := range addrs {
			if a.name != p.name || slices.ContainsFunc(without, func(c choice) bool { return c.theirs == k }) {
				continue
			}
			c := choice{part: i, theirs: k, at: a.addr, refused: best.refused}
			if p.compare != nil {
				var err error
				if c.preference, err = p.compare(a.addr); err != nil {
					best.refused = cmp.Or(best.refused, err)
					continue
				}
			}
			if best.part < 0 || d.prefers(peer, c, best) {
				best = c
			}
		}
	}
	if best.part < 0 {
		err := fmt.Errorf("%w: this process and peer %d have no transport in common", fabric.ErrNotSupported, peer)
		return best, errors.Join(err, best.refused)
	}
	if d.parts[best.part].compare != nil {
		best.refused = nil // another pair of devices is used
	}
	return best, nil
}

// prefers reports whether a is better than b. Among equals, the part that comes first at the process with the lower number is.
func (d *combined) prefers(peer int, a, b choice) bool {
	lower := func(c choice) (first, second int) {
		if d.self < peer {
			return c.part, c.theirs
		}
		return c.theirs, c.part
	}
	a1, a2 := lower(a)
	b1, b2 := lower(b)
	return cmp.Or(cmp.Compare(a.preference, b.preference), cmp.Compare(b1, a1), cmp.Compare(b2, a2)) > 0
}

// Choice returns the transport to a peer with that address, before or after Connect.
func (d *combined) Choice(peer int, addr []byte) (string, error) {
	c, err := d.choose(peer, addr)
	if err != nil {
		return "", err
	}
	return d.parts[c.part].name, nil
}

// Poll polls shared memory and the part that had an event last, and the others every idlePollInterval calls.
func (d *combined) Poll(evs []fabric.Event) (int, error) {
	d.polls++
	all := d.armed || d.polls%idlePollInterval == 0 || d.fallback.active()
	d.armed = false
	n, answers := 0, 0
	if all && d.fallback != nil {
		if n = d.fallback.handovers.deliver(evs); n == len(evs) {
			return n, nil
		}
		answers = d.fallback.fullPoll()
	}
	for i := range d.parts {
		if !all && i != d.shm && i != d.active {
			continue
		}
		k, err := d.parts[i].Poll(evs[n:])
		if k != 0 && i != d.shm {
			d.active = i
			if d.fallback != nil && i == d.fallback.tcp {
				k = d.fallback.filter(evs[n : n+k])
			} else if d.fallback.moving() {
				k = d.fallback.handovers.filter(evs[n : n+k])
			}
		}
		if n += k; err != nil {
			return n, fmt.Errorf("%s: %w", d.parts[i].name, err)
		}
	}
	if all && d.fallback != nil {
		d.fallback.progress(answers)
		n += d.fallback.handovers.deliver(evs[n:])
	}
	return n, nil
}

// Arm arms all parts.
func (d *combined) Arm() (int, bool, error) {
	d.armed = true
	if d.fallback != nil && len(d.fallback.due) > 0 {
		return d.epfd, true, nil
	}
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
	if d.fallback != nil {
		d.fallback.flush() // messages for which there was no room
		d.fallback.handovers.progress()
		return d.epfd, len(d.fallback.handovers.ready) > 0, nil
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
	if d.fallback.moving() && d.epfd >= 0 {
		d.fallback.handovers.finish()
	}
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
