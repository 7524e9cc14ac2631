package tcp

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/admission"
	"github.com/ibrun/ibrun/internal/encrypt"
)

// Domain is one peer's membership in a set.
//
// mu guards everything below it. It is taken by the goroutine that uses the domain, by other goroutines that Read from peers, and
// by the timer of progress. Nothing waits under it, except for Close.
type Domain struct {
	mu sync.Mutex

	// open and setUp write these; they are constant afterwards.
	self      int
	settings  settings
	encryptor *encrypt.Encryptor // nil: nothing is encrypted
	caps      fabric.Caps
	address   []byte // what Addr returns

	// State, and what wakes a caller that sleeps after Arm: the epoll set, which contains the timer.
	closed     bool  // Close was called
	pendingErr error // an error that concerns no single peer, for the next Poll
	epoll      int   // descriptor
	timer      timer
	clock      func() time.Time // time.Now, except in tests: see now
	closeBy    time.Time        // when Close waits no longer
	progress   progress

	attempts attempts
	stats    stats

	// Peers and the memory that they may read.
	peers     []*endpoint // by number; nil: no connection was tried by either side
	endpoints []*endpoint // those that are not nil
	regions   regions

	// Work lists of Poll.
	active      []*endpoint    // every Poll receives from them without asking epoll
	ready       []*endpoint    // they have something for Poll to return
	borrowed    []*endpoint    // the events of the last Poll refer to their buffers
	unsent      []*endpoint    // they have something that the kernel has not taken yet
	buffered    []*endpoint    // they may have received something that epoll does not report: see stream.hasMore
	doneEvents  []fabric.Event // ends of Reads, for Poll to return
	polls       uint           // number of Polls
	armed       bool           // Arm was called after the last Poll
	epollEvents [32]unix.EpollEvent
	buffers     buffers
	scratch     [headerBytes + maxJoined]byte // for a frame that is sent immediately
	requestBuf  [requestBytes]byte            // for the body of a kindRead
}

// settings are those of the Transport.
type settings struct {
	key              [32]byte
	timeout          time.Duration
	handshakeTimeout time.Duration // for the handshake of an accepted connection, and for the kernel to connect
	linger           time.Duration
	socketBuffer     int
	checkLocal       bool
	options          options // those that the peers must have, too
	maxPush          int     // Transport.MaxPush
	ifaces           []iface // the chosen interfaces
}

// attempts are the connections that are being made.
type attempts struct {
	listeners       []int
	handshakes      []*handshake           // by slot, nil: free
	unauthenticated admission.Waiting[int] // descriptors of those that were accepted, rather than dialed
}

// stats counts what went wrong on the way.
type stats struct {
	reconnects  uint64 // connections that were made again
	mismatches  uint64 // how often bytes were changed: by the checksum, or by TLS
	retransmits uint64 // packets that were retransmitted, as of the last checkConnection of each connection
}

// open opens a domain that listens on the chosen interfaces.
func open(t *Transport, cfg *fabric.Config, chosen []iface) (fabric.Domain, error) {
	d := &Domain{self: cfg.Self, caps: t.Caps(), peers: make([]*endpoint, cfg.Size), epoll: -1, timer: timer{fd: -1},
		clock: time.Now,
		settings: settings{key: t.Key, timeout: t.timeout(), handshakeTimeout: min(handshakeTimeout, t.timeout()), linger: t.linger(),
			socketBuffer: t.socketBuffer, checkLocal: t.checkLocal, options: t.options(), maxPush: t.MaxPush(), ifaces: chosen},
		attempts: attempts{
			unauthenticated: admission.Waiting[int]{Limit: admission.Limit(maxUnauthenticated), MinAge: minUnauthenticatedAge}}}
	if err := d.setUp(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// setUp makes the descriptors of a domain and starts its timers.
func (d *Domain) setUp() (err error) {
	d.progress.init(d)
	if d.settings.options&optionEncrypt != 0 {
		if d.encryptor, err = encrypt.New(tlsProtocol); err != nil {
			return fmt.Errorf("tcp: %w", err)
		}
	}
	if d.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("tcp: create an epoll descriptor: %w", err)
	}
	if err := d.timer.init(d.settings.timeout); err != nil {
		return err
	}
	if err := d.epollCtl(unix.EPOLL_CTL_ADD, d.timer.fd, unix.EPOLLIN, tagTimer, 0); err != nil {
		return err
	}
	if err := d.startListening(); err != nil {
		return err
	}
	d.progress.start()
	return nil
}

// noteError keeps the first error that concerns no single peer for the next Poll.
func (d *Domain) noteError(err error) {
	if d.pendingErr == nil {
		d.pendingErr = err
	}
}

// Addr returns the addresses that this peer listens at.
func (d *Domain) Addr() []byte { return d.address }

// Caps returns the limits.
func (d *Domain) Caps() fabric.Caps { return d.caps }

// Register allows peers to read b.
func (d *Domain) Register(b []byte) (fabric.Region, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fabric.Region{}, fabric.ErrClosed
	}
	return d.regions.add(b)
}

// Deregister ends a registration. A Read in progress fails, unless its last part is being sent already.
func (d *Domain) Deregister(r fabric.Region) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.unsent {
		if e.out.bodyKey == r.Local { // part of a push that the peer needs no more: it must be sent all the same, so keep a copy
			e.out.body = bytes.Clone(e.out.body)
		}
	}
	return d.regions.remove(r.Local)
}

// endpoint returns the endpoint of a peer, which may be new.
func (d *Domain) endpoint(peer int) *endpoint {
	e := d.peers[peer]
	if e == nil {
		e = &endpoint{d: d, peer: int32(peer), stream: noStream}
		e.reading.peer, e.reading.done = e.peer, &d.doneEvents
		rand.Read(e.conn.session[:])
		d.peers[peer] = e
		d.endpoints = append(d.endpoints, e)
	}
	return e
}
