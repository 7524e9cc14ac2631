package shm

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/memaddr"
	ring "github.com/ibrun/ibrun/internal/shm"
)

// Domain is one peer's membership in a node. Peers are numbered as in fabric.Config outside and by their place in
// local inside.
type Domain struct {
	local    []int
	me       int
	key      [32]byte
	stream   int // Transport.Stream
	pidns    uint64
	barrier  bool // this process can make the others pass a barrier
	sock     *socket
	seg      *ring.Segment
	mem      []byte // control blocks
	controls []*control
	self     *control
	ends     []*endpoint          // by local number, nil: not connected
	wide     int                  // how many of them have room for twice a second-level cache
	addrs    []*unix.SockaddrUnix // by local number, nil: not needed yet
	segs     map[uint64]*pending
	fenced   atomic.Uint32 // nobody reads it

	ins   []*inbound // by local number, nil: no ring from there
	ring  []*inbound // those that exist, in the order in which they came
	next  int        // where in ring the next Poll begins
	lent  *inbound   // the last that has records out
	idle  *endpoint  // the last whose ring is to be made ready for more, when there is nothing else to do
	asked int        // local number of the peer that something was sent to last
	looks int        // Polls for which its answer is expected; 0 when a message came
	seen  uint64     // news of self when last looked at
	down  []bool     // peers of which nothing more is told
	lost  []fabric.Event
	armed bool
	rare  bool // Poll has more to see to than messages: the domain is armed or closed, a peer has closed or is lost
}

// inbound is a ring that this peer reads.
type inbound struct {
	r      *ring.Reader
	mem    []byte
	from   int
	peer   int32
	lent   bool
	after  *inbound // the one before it that has, too
	flags  *uint32  // of the writer, which may sleep until there is room
	fence  bool     // between releasing and looking whether the writer sleeps
	calm   bool     // the last Poll found nothing here
	closed bool     // the writer has closed; what is left is still delivered
}

var (
	_ fabric.Domain            = (*Domain)(nil)
	_ fabric.SharedMemory      = (*Domain)(nil)
	_ fabric.CooperativeCopier = (*Domain)(nil)
)

// Addr is nil: where a peer is follows from its number and the job's key.
func (d *Domain) Addr() []byte { return nil }

// Caps returns the limits.
func (d *Domain) Caps() fabric.Caps { return new(Transport).Caps() }

// Register names b by its address.
func (d *Domain) Register(b []byte) (fabric.Region, error) {
	return fabric.Region{Remote: fabric.RemoteKey{Addr: memaddr.Of(b)}}, nil
}

// Deregister has nothing to undo.
func (d *Domain) Deregister(fabric.Region) error { return nil }

// Connect makes the ring to a peer. The peer finds it when it opens.
func (d *Domain) Connect(peer int, _ []byte) (fabric.Endpoint, error) {
	if d.self == nil {
		return nil, fabric.ErrClosed
	}
	to, ok := slices.BinarySearch(d.local, peer)
	if !ok {
		return nil, fmt.Errorf("shm: peer %d is not on this node", peer)
	}
	if e := d.ends[to]; e != nil {
		return e, nil
	}
	mem, err := d.mapRing(d.me, to)
	if err != nil {
		return nil, fmt.Errorf("shm: connect to peer %d: %w", peer, err)
	}
	w, err := ring.NewWriter(mem, maxPayload+maxHeader)
	if err != nil {
		return nil, errors.Join(err, ring.Unmap(mem))
	}
	w.Confine(shortSpace)
	e := &endpoint{w: w, d: d, peer: d.controls[to], flags: &d.controls[to].flags, mem: mem, to: to, fence: true}
	if d.down[to] {
		e.ended.Store(&errDown)
	}
	d.ends[to] = e
	d.tell(to, &d.controls[to].from)
	return e, nil
}

// mapRing maps the ring from one peer to another, with the memory that it begins with.
func (d *Domain) mapRing(from, to int) ([]byte, error) {
	at := ringOffset(from, to, len(d.local))
	if err := d.seg.Allocate(at, ringBytes(shortSpace)); err != nil {
		return nil, err
	}
	return d.seg.Reserve(at, ringBytes(wideSpace))
}

// tell sets this peer's bit in one of the bitmaps of another and makes it look.
func (d *Domain) tell(to int, bitmap *[maxLocal / 64]uint64) {
	atomic.OrUint64(&bitmap[d.me/64], 1<<(d.me%64))
	atomic.AddUint64(&d.controls[to].news, 1)
	d.rouse(to)
}

// rouse wakes a peer that sleeps. The caller's stores come first, either by a fence or because the sleeper made us
// pass one.
func (d *Domain) rouse(to int) {
	if f := &d.controls[to].flags; atomic.LoadUint32(f)&asleep != 0 && atomic.AndUint32(f, ^uint32(asleep))&asleep != 0 {
		d.sock.wake(d.address(to))
	}
}

// address is where a peer's socket is.
func (d *Domain) address(to int) *unix.SockaddrUnix {
	if d.addrs[to] == nil {
		d.addrs[to] = address(d.key, d.local[to])
	}
	return d.addrs[to]
}

// fence keeps later loads from being made before earlier stores are visible: an atomic read-modify-write does, on
// every processor that Go has.
func (d *Domain) fence() { d.fenced.Add(1) }

// Poll takes messages from the rings in turn, and one alone where the Poll before found none: it is likely to be answered. Where
// evs is too short for all it goes on with the next ring next time. What it finds out about a peer meanwhile it tells the next
// time.
func (d *Domain) Poll(evs []fabric.Event) (int, error) {
	if d.lent != nil {
		d.release()
	}
	if d.rare {
		if err := d.wake(); err != nil {
			return 0, err
		}
	}
	if atomic.LoadUint64(&d.self.news) != d.seen {
		d.look()
	}
	n := 0
	if d.rare { // before the messages: there may be no end of them
		n = d.tidings(evs)
	}
	for i := d.next; i < len(d.ring) && n < len(evs); i++ {
		in, before := d.ring[i], n
		for {
			data := in.r.Same()
			if data == nil {
				if !in.r.Ready() {
					break
				}
				var err error
				if data, err = in.r.Next(); err != nil {
					d.lose(in.from, corrupt(d.local[in.from], err))
				}
				if data == nil {
					break
				}
			}
			ev := &evs[n] // field by field: the others mean nothing here, and clearing them costs
			ev.Kind, ev.Peer, ev.Data = fabric.Message, in.peer, data
			if !in.lent {
				in.lent, in.after, d.lent = true, d.lent, in
			}
			if n++; n == len(evs) {
				d.next, d.looks = (i+1)%len(d.ring), 0
				return n, nil
			}
			if in.calm { // what the program answers is seen once the line of the next one has come, if that is asked for first
				break
			}
		}
		in.calm = n == before
	}
	d.next = 0
	switch {
	case n != 0:
		d.looks = 0
	case d.idle != nil:
		d.fetch()
	case d.looks > 0:
		d.expect()
	}
	return n, nil
}

// expect sees to the ring in which an answer is expected.
func (d *Domain) expect() {
	d.looks--
	if in := d.ins[d.asked]; in != nil {
		in.r.Expect()
	}
}

// fetch makes rings ready for messages like the last ones.
func (d *Domain) fetch() {
	for e := d.idle; e != nil; e = e.after {
		e.idle = false
		e.w.Fetch()
	}
	d.idle = nil
}

// wake sees to what a Poll finds that follows Arm or Close.
func (d *Domain) wake() error {
	switch {
	case d.self == nil:
		return fabric.ErrClosed
	case d.armed:
		return d.disarm()
	}
	return nil
}

// tidings tells of peers that are lost, and of those that have closed once all they sent has been taken.
func (d *Domain) tidings(evs []fabric.Event) int {
	for _, in := range d.ring { // lose puts another in its place
		if in.closed && !in.r.Ready() {
			d.lose(in.from, nil)
		}
	}
	k := copy(evs, d.lost)
	d.lost = slices.Delete(d.lost, 0, k)
	d.rare = len(d.lost) != 0 || slices.ContainsFunc(d.ring, func(in *inbound) bool { return in.closed })
	return k
}

// corrupt is why a peer is lost that wrote what no correct peer writes.
func corrupt(peer int, err error) error {
	return fmt.Errorf("shm: peer %d: %w: %w: %w", peer, fabric.ErrPeerDown, fabric.ErrCorrupt, err)
}

// release ends the loans. A writer that sleeps for want of room is woken when it gets some.
func (d *Domain) release() {
	for in := d.lent; in != nil; in = in.after {
		in.lent = false
		if !in.r.Release() {
			continue
		}
		if in.fence {
			d.fence()
		}
		if atomic.LoadUint32(in.flags)&asleep != 0 {
			d.rouse(in.from)
		}
	}
	d.lent = nil
}

// look finds out who has connected or closed since the last time.
func (d *Domain) look() {
	d.seen = atomic.LoadUint64(&d.self.news)
	for from := range d.local {
		bit := uint64(1) << (from % 64)
		// Asked in this order: whoever closes has connected before.
		gone := atomic.LoadUint64(&d.self.gone[from/64])&bit != 0
		if d.ins[from] == nil && !d.down[from] && atomic.LoadUint64(&d.self.from[from/64])&bit != 0 {
			if err := d.accept(from); err != nil {
				d.lose(from, err)
			}
		}
		if gone && !d.down[from] {
			if in := d.ins[from]; in != nil {
				in.closed, d.rare = true, true
			} else {
				d.lose(from, nil)
			}
		}
	}
}

// accept maps the ring that a peer has made to us.
func (d *Domain) accept(from int) error {
	mem, err := d.mapRing(from, d.me)
	if err != nil {
		return fmt.Errorf("shm: accept peer %d: %w", d.local[from], err)
	}
	r, err := ring.NewReader(mem, maxPayload+maxHeader)
	if err != nil {
		return errors.Join(err, ring.Unmap(mem))
	}
	writer := d.controls[from]
	in := &inbound{
		r: r, mem: mem, from: from, peer: int32(d.local[from]), flags: &writer.flags, fence: !d.barrier || writer.fence != 0,
	}
	d.ins[from] = in
	d.ring = append(d.ring, in)
	return nil
}

// lose reports a peer as down, once, and stops reading from it.
func (d *Domain) lose(from int, err error) {
	if d.down[from] {
		return
	}
	why := &errDown
	if err == nil {
		err, why = fabric.ErrPeerClosed, &errLeft
	}
	d.rare = true
	d.lost = append(d.lost, fabric.Event{Kind: fabric.PeerDown, Peer: int32(d.local[from]), Err: err})
	if e := d.ends[from]; e != nil {
		e.ended.CompareAndSwap(nil, why)
	}
	d.mute(from)
}

// mute stops reading from a peer.
func (d *Domain) mute(from int) {
	d.down[from] = true
	if in := d.ins[from]; in != nil {
		d.ring = slices.DeleteFunc(slices.Clone(d.ring), func(x *inbound) bool { return x == in })
		d.next = 0
	}
}

// Arm says that this peer sleeps and looks once more.
func (d *Domain) Arm() (int, bool, error) {
	if d.self == nil {
		return -1, false, fabric.ErrClosed
	}
	d.release()
	atomic.OrUint32(&d.self.flags, asleep)
	d.armed, d.rare = true, true
	if d.barrier {
		if err := membarrier(membarrierGlobalExpedited); err != nil {
			return -1, false, fmt.Errorf("shm: membarrier: %w", err)
		}
	}
	return d.sock.fd, d.waiting(), nil
}

func (d *Domain) waiting() bool {
	if len(d.lost) != 0 || atomic.LoadUint64(&d.self.news) != d.seen {
		return true
	}
	for _, in := range d.ring {
		if in.closed || in.r.Ready() {
			return true
		}
	}
	return false
}

// disarm says that this peer is awake and takes the wakes that came.
func (d *Domain) disarm() error {
	d.armed = false
	atomic.AndUint32(&d.self.flags, ^uint32(asleep))
	return d.sock.drain()
}

// Words are in the pages that the rings of the two begin with.
func (d *Domain) Words(peer int, inbound bool) []uint64 {
	to, ok := slices.BinarySearch(d.local, peer)
	switch {
	case d.self == nil:
	case ok && inbound && d.ins[to] != nil:
		return ring.Words(d.ins[to].mem)
	case ok && !inbound && d.ends[to] != nil:
		return ring.Words(d.ends[to].mem)
	}
	return nil
}

// Wake wakes a peer of this node.
func (d *Domain) Wake(peer int) {
	if to, ok := slices.BinarySearch(d.local, peer); ok && d.self != nil {
		if !d.barrier || d.controls[to].fence != 0 {
			d.fence()
		}
		d.rouse(to)
	}
}

// Close says goodbye to whoever is connected, and unmaps everything.
func (d *Domain) Close() error {
	var errs []error
	if d.self != nil {
		atomic.OrUint32(&d.self.flags, closed)
		for to := range d.local {
			// Who connects later than this looks sees the flag when it sends.
			met := atomic.LoadUint64(&d.self.from[to/64])>>(to%64)&1 != 0
			if to != d.me && (d.ends[to] != nil || met) {
				d.tell(to, &d.controls[to].gone)
			}
		}
		d.self, d.rare = nil, true
	}
	for i := range d.local {
		if e := d.ends[i]; e != nil {
			errs = append(errs, e.unmap())
		}
		if in := d.ins[i]; in != nil {
			errs = append(errs, ring.Unmap(in.mem))
			d.ins[i] = nil
		}
	}
	for _, p := range d.segs {
		errs = append(errs, p.close())
	}
	clear(d.segs)
	d.ring, d.lent, d.idle = nil, nil, nil
	if d.mem != nil {
		errs = append(errs, ring.Unmap(d.mem))
		d.mem = nil
	}
	if d.seg != nil {
		errs = append(errs, d.seg.Close())
	}
	if d.sock != nil {
		errs = append(errs, d.sock.close())
		d.sock = nil
	}
	return errors.Join(errs...)
}
