package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

const (
	// hotPeers is how many connections are received from without asking epoll.
	hotPeers = 4
	// coolAfter is how many polls in a row may find nothing at a hot one.
	coolAfter = 5000
	// hideAfter is how many polls have to find something at a hot one before it is hidden from epoll, which saves the kernel a
	// twentieth of its work on every message and costs two calls whenever the program sleeps.
	hideAfter = 100
	// rare is how many polls there are for one that asks epoll about everything else.
	rare = 32
)

// Domain is one peer's membership in a set. Its mutex is for those who read from peers beside the goroutine that uses the
// domain, and for the timer; nothing under it waits, except for Close.
type Domain struct {
	mu       sync.Mutex
	self     int
	key      [32]byte
	timeout  time.Duration
	linger   time.Duration
	window   int
	caps     fabric.Caps
	pushMost int // Transport.Pushes
	mine     []iface
	address  []byte
	closed   bool
	trouble  error // that concerns no peer: the next Poll tells it
	epoll    int
	timer    timer
	progress progress

	listeners []int
	greetings []*greeting // by slot, nil: free
	foreign   int         // of them, those that came from outside

	peers   []*endpoint // nil: nobody has called or was called
	known   []*endpoint // those that are not nil
	regions regions

	hot     []*endpoint
	full    []*endpoint    // that have something for Poll
	lent    []*endpoint    // whose messages events refer to
	pending []*endpoint    // that wait for the kernel
	done    []fabric.Event // ends of Reads
	turns   uint
	resent  uint64 // packets, as of the last look at each connection
	armed   bool
	evs     [32]unix.EpollEvent
	free    [][]byte // buffers
	scratch [headerBytes + joined]byte
	asking  [requestBytes]byte
}

// Tags say what a descriptor is that epoll tells about; its number follows.
const (
	tagPeer int32 = iota
	tagGreeting
	tagListener
	tagTimer
)

func open(t *Transport, cfg *fabric.Config, chosen []iface) (fabric.Domain, error) {
	d := &Domain{self: cfg.Self, key: t.Key, timeout: t.timeout(), linger: t.linger(), window: t.window,
		caps: t.Caps(), pushMost: t.Pushes(), mine: chosen, peers: make([]*endpoint, cfg.Size), epoll: -1, timer: timer{fd: -1}}
	if err := d.setUp(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Domain) setUp() (err error) {
	d.progress.init(d)
	if d.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("tcp: make a descriptor to sleep on: %w", err)
	}
	if err := d.timer.init(d.timeout); err != nil {
		return err
	}
	if err := d.watch(unix.EPOLL_CTL_ADD, d.timer.fd, unix.EPOLLIN, tagTimer, 0); err != nil {
		return err
	}
	var places []netip.AddrPort
	for _, i := range d.mine {
		for _, p := range i.prefixes {
			if len(places) == maxPlaces {
				break
			}
			fd, port, err := listen(i.zoned(p.Addr()))
			if errors.Is(err, unix.EADDRNOTAVAIL) {
				continue // has gone since it was listed, or is still being tried out by the kernel
			}
			if err != nil {
				return err
			}
			d.listeners = append(d.listeners, fd)
			if err := d.watch(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, tagListener, len(d.listeners)-1); err != nil {
				return err
			}
			places = append(places, netip.AddrPortFrom(p.Addr(), port))
		}
	}
	if len(places) == 0 {
		return fmt.Errorf("%w: none of the chosen network interfaces has an address to listen at", fabric.ErrNotSupported)
	}
	slices.SortStableFunc(places, func(a, b netip.AddrPort) int { return a.Addr().BitLen() - b.Addr().BitLen() })
	d.address = appendAddress(nil, places)
	d.progress.start()
	return nil
}

// watch tells epoll what to look for at a descriptor, and under which name.
func (d *Domain) watch(op, fd int, events uint32, tag int32, number int) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(number), Pad: tag}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(d.epoll, op, fd, &ev))
}

// note keeps an error that concerns no peer for the next Poll.
func (d *Domain) note(err error) {
	if d.trouble == nil {
		d.trouble = err
	}
}

// Addr tells peers where to call.
func (d *Domain) Addr() []byte { return d.address }

// Caps returns the limits.
func (d *Domain) Caps() fabric.Caps { return d.caps }

// Register makes b readable for peers.
func (d *Domain) Register(b []byte) (fabric.Region, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fabric.Region{}, fabric.ErrClosed
	}
	return d.regions.add(b)
}

// Deregister ends a registration. A Read that is under way fails, unless its last part is on its way already.
func (d *Domain) Deregister(r fabric.Region) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.pending {
		if e.key == r.Local { // on its way to a peer that has no use for it any more, as it wanted less than was pushed
			e.body = bytes.Clone(e.body)
		}
	}
	return d.regions.remove(r.Local)
}

// endpoint is that of a peer, which may be new.
func (d *Domain) endpoint(peer int) *endpoint {
	e := d.peers[peer]
	if e == nil {
		e = &endpoint{d: d, peer: int32(peer), fd: -1}
		d.peers[peer] = e
		d.known = append(d.known, e)
	}
	return e
}

// Connect calls a peer, unless it has called.
func (d *Domain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fabric.ErrClosed
	}
	if peer < 0 || peer >= len(d.peers) {
		return nil, fmt.Errorf("tcp: connect to peer %d of %d", peer, len(d.peers))
	}
	if e := d.peers[peer]; e != nil && e.state != unknown {
		return e, nil
	}
	if peer == d.self {
		e := d.endpoint(peer)
		e.state = up
		return e, nil
	}
	places, err := parseAddress(addr)
	if err == nil {
		places, err = calls(d.mine, places)
	}
	if err != nil {
		return nil, fmt.Errorf("tcp: connect to peer %d: %w", peer, err)
	}
	e := d.endpoint(peer)
	e.state, e.places, e.give = calling, places, time.Now().Add(d.timeout)
	d.call(e)
	return e, nil
}

// Poll takes what has come: first what was there already, then from connections that were busy lately, then from the others.
func (d *Domain) Poll(evs []fabric.Event) (int, error) {
	d.mu.Lock()
	n, err := d.poll(evs)
	d.mu.Unlock()
	return n, err
}

func (d *Domain) poll(evs []fabric.Event) (int, error) {
	if d.closed {
		return 0, fabric.ErrClosed
	}
	if len(d.lent) != 0 {
		d.endLoans()
	}
	d.turns++
	all := d.turns%rare == 0
	if d.armed {
		d.armed, all = false, true
		d.progress.start()
	}
	if len(d.pending) != 0 {
		d.flush()
	}
	for i := 0; i < len(d.hot); i++ {
		switch e := d.hot[i]; {
		case e.taken < e.seen: // the program has not taken yet what came before
		case e.pump():
			e.idle = 0
			if e.busy++; e.busy == hideAfter {
				d.hide(e)
			}
		default:
			if e.idle++; e.idle > coolAfter {
				d.cool(e)
			}
		}
	}
	if all || len(d.hot) == 0 {
		if _, due := d.look(); due {
			d.tick()
		}
	}
	n := 0
	if len(d.done) != 0 {
		n = copy(evs, d.done)
		d.done = slices.Delete(d.done, 0, n)
	}
	if len(d.full) != 0 {
		n += d.deliver(evs[n:])
	}
	err := d.trouble
	d.trouble = nil
	return n, err
}

// endLoans ends those of the last Poll.
func (d *Domain) endLoans() {
	for _, e := range d.lent {
		e.lent = false
		if e.taken == e.have {
			e.discard()
		}
	}
	d.lent = d.lent[:0]
}

// flush sends what waits for the kernel, and reports whether anything went.
func (d *Domain) flush() (moved bool) {
	rest := d.pending[:0]
	for _, e := range d.pending {
		moved = e.flush() || moved
		if e.fd >= 0 && (e.waits() || e.serving.many > 0) {
			rest = append(rest, e)
			continue
		}
		e.pending = false
		d.watchRoom(e, false)
	}
	d.pending = rest
	return moved
}

// await notes that something waits for the kernel.
func (d *Domain) await(e *endpoint) {
	if !e.pending {
		e.pending = true
		d.pending = append(d.pending, e)
		d.progress.start()
	}
	if d.armed {
		d.watchRoom(e, true)
	}
}

// watchRoom sets whether epoll tells that the kernel can take more.
func (d *Domain) watchRoom(e *endpoint, on bool) {
	if e.watched == on || e.fd < 0 {
		return
	}
	e.watched = on
	if !e.unwatched {
		d.note(d.watch(unix.EPOLL_CTL_MOD, e.fd, e.events(), tagPeer, int(e.peer)))
	}
}

// events are those that epoll is to tell about.
func (e *endpoint) events() uint32 {
	if e.watched {
		return unix.EPOLLIN | unix.EPOLLOUT
	}
	return unix.EPOLLIN
}

// hide takes an endpoint that is received from at every Poll away from epoll.
func (d *Domain) hide(e *endpoint) {
	if e.fd >= 0 {
		e.unwatched = true
		d.note(os.NewSyscallError("epoll_ctl", unix.EpollCtl(d.epoll, unix.EPOLL_CTL_DEL, e.fd, nil)))
	}
}

// show is hide undone.
func (d *Domain) show(e *endpoint) {
	if e.busy = 0; e.unwatched {
		e.unwatched = false
		if e.fd >= 0 {
			d.note(d.watch(unix.EPOLL_CTL_ADD, e.fd, e.events(), tagPeer, int(e.peer)))
		}
	}
}

// list notes that Poll finds something at an endpoint.
func (d *Domain) list(e *endpoint) {
	if !e.listed {
		e.listed = true
		d.full = append(d.full, e)
	}
}

// deliver takes from those that have something, in turn.
func (d *Domain) deliver(evs []fabric.Event) int {
	n := 0
	for k := len(d.full); k > 0 && n < len(evs); k-- {
		e := d.full[0]
		n += e.deliver(evs[n:])
		copy(d.full, d.full[1:])
		d.full = d.full[:len(d.full)-1]
		if e.holds() {
			d.full = append(d.full, e) // behind the others
			continue
		}
		e.listed = false
		if e.taken == e.have && !e.lent {
			e.discard()
		}
	}
	return n
}

// heat makes an endpoint one that is received from at every Poll, in the place of the one that was idle longest.
func (d *Domain) heat(e *endpoint) {
	e.idle = 0
	if e.hot {
		return
	}
	if len(d.hot) == hotPeers {
		d.cool(slices.MaxFunc(d.hot, func(a, b *endpoint) int { return a.idle - b.idle }))
	}
	e.hot = true
	d.hot = append(d.hot, e)
}

func (d *Domain) cool(e *endpoint) {
	if e.hot {
		e.hot = false
		d.show(e)
		d.hot = slices.DeleteFunc(d.hot, func(x *endpoint) bool { return x == e })
	}
}

// look asks epoll, and sees to whatever it tells about. It reports whether it was told about anything, and whether the timer is
// due: what came in time is seen to before deadlines are.
func (d *Domain) look() (some, due bool) {
	n, errno := ready(d.epoll, d.evs[:])
	if errno != 0 && errno != unix.EAGAIN {
		d.note(os.NewSyscallError("epoll_pwait", errno))
	}
	for _, ev := range d.evs[:n] {
		i := int(ev.Fd)
		switch ev.Pad {
		case tagPeer:
			e := d.peers[i]
			switch {
			case e.state == leaving:
				d.drain(e)
			case e.pump():
				d.heat(e)
			}
		case tagGreeting:
			if g := d.greetings[i]; g != nil {
				d.advance(g)
			}
		case tagListener:
			d.note(d.welcome(d.listeners[i]))
		case tagTimer:
			due = true
		}
	}
	return n > 0, due
}

// drain drops what a peer sends to which this side has said goodbye, until it has gone, too.
func (d *Domain) drain(e *endpoint) {
	b := d.borrow()
	for range flushBytes / bufferBytes {
		n, errno := receive(e.fd, b)
		if errno == unix.EAGAIN {
			break
		}
		if n == 0 {
			e.drop()
			break
		}
	}
	d.giveBack(b)
}

// Arm prepares to sleep on the epoll descriptor, which watches everything.
func (d *Domain) Arm() (int, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return -1, false, fabric.ErrClosed
	}
	d.endLoans()
	if len(d.full) != 0 || len(d.done) != 0 || d.trouble != nil {
		return d.epoll, true, nil
	}
	d.armed = true
	for _, e := range d.pending {
		d.watchRoom(e, true)
	}
	for _, e := range d.hot {
		d.show(e)
	}
	return d.epoll, false, nil
}

// borrow takes a buffer.
func (d *Domain) borrow() []byte {
	if n := len(d.free); n > 0 {
		b := d.free[n-1]
		d.free = d.free[:n-1]
		return b
	}
	return make([]byte, bufferBytes)
}

// giveBack returns a buffer, or a part of it that begins where it does.
func (d *Domain) giveBack(b []byte) {
	if len(d.free) < spare {
		d.free = append(d.free, b[:cap(b)])
	}
}

// spare is how many buffers that nobody uses are kept.
const spare = 16

// Close says goodbye to all, waits a little for what was sent to reach their kernels, and frees everything.
func (d *Domain) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.progress.stop()
	for _, fd := range d.listeners {
		d.note(shut(fd))
	}
	for _, g := range d.greetings {
		if g != nil {
			d.dismiss(g)
		}
	}
	for _, e := range d.known {
		if e.state != leaving && e.why != fabric.ErrClosed {
			e.leave()
		}
	}
	d.farewell()
	for _, e := range d.known {
		e.drop()
	}
	if d.timer.fd >= 0 {
		d.note(shut(d.timer.fd))
	}
	if d.epoll >= 0 {
		d.note(shut(d.epoll))
	}
	d.lent, d.full, d.free, d.done = nil, nil, nil, nil
	return d.trouble
}

// farewell waits until the kernels of all peers have what was sent: a socket that is closed with unread bytes in it takes
// back what is still on its way.
func (d *Domain) farewell() {
	left := slices.Clone(d.known)
	for end := time.Now().Add(d.linger); ; time.Sleep(100 * time.Microsecond) {
		d.flush()
		left = slices.DeleteFunc(left, func(e *endpoint) bool {
			if e.fd < 0 {
				return true
			}
			d.drain(e)
			if e.fd < 0 || e.waits() {
				return e.fd < 0
			}
			n, err := unsent(e.fd)
			return n == 0 || err != nil
		})
		if len(left) == 0 || time.Now().After(end) {
			return
		}
	}
}
