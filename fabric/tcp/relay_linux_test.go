package tcp

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fault is what a relay does to a connection.
type fault int

const (
	faultNone  fault = iota
	faultReset       // both ends are reset
	faultClose       // both ends are closed
	faultFlip        // a bit is changed
	faultDelay       // nothing is forwarded for a few milliseconds
	faultHalf        // one end is reset, and the other end stays open
	faultCount
)

// relay forwards connections to a domain, and damages them.
type relay struct {
	t        *testing.T
	listener net.Listener
	target   string
	choose   func() (f fault, at int) // the fault of the next connection, after so many bytes of one direction
	done     sync.WaitGroup
	count    [faultCount]atomic.Int64
	mu       sync.Mutex
	open     []net.Conn
	halves   []net.Conn // ends that faultHalf has left open
	noHalves bool       // faultHalf resets both ends
	closed   bool
}

// startRelay starts a relay to the first address of a domain.
func startRelay(t *testing.T, d *Domain, choose func() (fault, int)) *relay {
	t.Helper()
	places, err := parseAddress(d.Addr())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, listener: l, target: places[0].String(), choose: choose}
	r.done.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

// close ends the relay and all its connections.
func (r *relay) close() {
	_ = r.listener.Close() // it may be closed already
	r.resetAll(true)
	r.done.Wait()
}

// resetAll resets all connections.
func (r *relay) resetAll(closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = r.closed || closed
	for _, c := range r.open {
		reset(c)
	}
	r.open = nil
}

// resetHalves resets the ends that faultHalf has left open, and those that it would leave open from now on. It is for a peer that
// has closed. Without the relay its host would answer the next probe of such an end by a reset.
func (r *relay) resetHalves() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noHalves = true
	for _, c := range r.halves {
		reset(c)
	}
	r.halves = nil
}

// leaveHalf leaves an end open whose other end was reset.
func (r *relay) leaveHalf(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noHalves {
		reset(c)
		return
	}
	r.halves = append(r.halves, c)
}

// hasHalf reports whether faultHalf has left the end of a connection open whose other end has this address.
func (r *relay) hasHalf(at netip.AddrPort) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.halves, func(c net.Conn) bool {
		far := c.RemoteAddr().(*net.TCPAddr).AddrPort()
		return netip.AddrPortFrom(far.Addr().Unmap(), far.Port()) == at
	})
}

// reset closes a connection by a reset.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0) // it may be closed already
	_ = c.Close()
}

// address returns the address of the relay as that of a domain.
func (r *relay) address() []byte {
	return appendAddress(nil, []netip.AddrPort{netip.MustParseAddrPort(r.listener.Addr().String())})
}

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", r.target)
		if err != nil {
			reset(near)
			continue
		}
		r.mu.Lock()
		if r.closed {
			reset(near)
			reset(far)
		}
		r.open = append(r.open, near, far)
		f, at := r.choose()
		r.mu.Unlock()
		there, back := faultNone, f
		if at%2 == 0 {
			there, back = f, faultNone
		}
		r.done.Go(func() { r.forward(far, near, there, at) })
		r.done.Go(func() { r.forward(near, far, back, at) })
	}
}

// forward copies a direction of a connection, with a fault after at bytes.
func (r *relay) forward(to, from net.Conn, f fault, at int) {
	half := false
	defer func() {
		if !half {
			_ = to.Close() // it may be closed already
		}
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if f != faultNone && at < n {
			r.count[f].Add(1)
			switch f {
			case faultReset, faultClose:
				_, _ = to.Write(b[:at])
				if f == faultReset {
					reset(to)
					reset(from)
				}
				_ = from.Close()
				return
			case faultFlip:
				b[at] ^= 1 << (at % 8)
			case faultDelay:
				time.Sleep(5 * time.Millisecond)
			case faultHalf:
				half = true
				reset(from)
				r.leaveHalf(to)
				return
			}
			f, at = faultReset, at+1<<18 // if that had no effect
		}
		at -= n
		if _, err := to.Write(b[:n]); err != nil || n == 0 {
			return
		}
		if err != nil {
			return
		}
	}
}

// randomFaults returns a function that chooses faults: at every step of the handshake, or later.
func randomFaults(r *rand.Rand, kinds ...fault) func() (fault, int) {
	var mu sync.Mutex // relays have goroutines, and those of one test share this
	own := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
	return func() (fault, int) {
		mu.Lock()
		defer mu.Unlock()
		return kinds[own.IntN(len(kinds))], own.IntN(1 << (3 + own.IntN(20)))
	}
}
