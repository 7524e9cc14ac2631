package datagrams

import (
	"errors"
	"sync"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/verbs"
)

// An address handle needs the MAC address of the peer's host on Ethernet. The call that creates the
// handle asks the network for it. That takes microseconds if the kernel knows the host, and a
// second or more if the host is gone. So goroutines make the calls. The caller waits for a result
// for a short time, which is mostly enough, and only if no other call is already taking longer. On
// InfiniBand nothing is asked for, and the caller makes the call itself.

// Resolver makes the destinations of datagrams.
type Resolver struct {
	Patience time.Duration // how long the caller waits for a result
	Direct   bool          // the caller makes the calls, which do not block
	Revision uint16        // of our own address; destinations of an earlier one are not used

	rail    *devices.Rail
	uds     []*verbs.QP // of the rail, see devices.Rail.UDs
	params  verbs.Params
	wake    func() // see Open
	release func()

	done       chan *resolution // have ended; has room for all, so that no goroutine waits
	running    int              // those that have begun, also those in done
	waiting    []*resolution    // those that have not begun, oldest first
	goroutines sync.WaitGroup
}

const (
	// MaxResolutions is how many calls are made at the same time, each of which may block a thread
	// of the operating system.
	MaxResolutions = 16

	resolvePatience = time.Millisecond
)

// resolution makes one destination.
type resolution struct {
	peer     int
	remote   *Remote
	revision uint16 // of the peer's address
	again    bool   // the device had no more address handles, and release has freed some
	begun    bool
	outdated bool // the result is to be renewed, see Remote.Outdate
	make     func() (*Destination, error)
	dest     *Destination // the result; its revision is that of our own address
	err      error
}

// ErrResolving means that the address of the peer is being resolved. What is to be sent must be
// sent again.
var ErrResolving = errors.New("the address of the peer is being resolved")

// Open sets what destinations depend on: the first rail, and the parameters of address handles.
// When a result has come that nobody waits for, wake is called, by another goroutine. When the
// device has no more address handles, release is called: it is to call [Remote.Forget] for peers
// that are sent no datagrams.
func (v *Resolver) Open(r *devices.Rail, params verbs.Params, wake, release func()) {
	*v = Resolver{Patience: resolvePatience, Direct: r.InfiniBand, rail: r, uds: r.UDs(), params: params, wake: wake,
		release: release, done: make(chan *resolution, MaxResolutions)}
}

// Close waits for the calls that are being made.
func (v *Resolver) Close() { v.goroutines.Wait() }

// Destination returns the destination of datagrams to a peer. It makes a new one if there is none,
// if it is to be renewed, or if our own address has changed. The old one is returned until the new
// one is there, if our own address has not changed. The error is ErrResolving if that takes longer,
// and otherwise that of Next.
func (v *Resolver) Destination(peer int, r *Remote) (*Destination, error) {
	usable := v.isUsable(r)
	switch {
	case usable && !r.dest.stale, usable && (r.resolution != nil || v.running == MaxResolutions):
		// Others need the goroutines more than one whose destination may be right.
		return r.dest, nil
	case r.resolution != nil:
		return nil, ErrResolving
	}
	if err := v.resolve(peer, r, false); err != nil {
		return nil, err
	}
	if usable && !v.Direct {
		return r.dest, nil
	}
	for r.resolution != nil {
		n := v.await()
		if n == nil {
			return nil, ErrResolving
		}
		if err := v.take(n); err != nil {
			return nil, err
		}
	}
	return r.dest, nil
}

// isUsable reports whether there is a destination that belongs to our present address.
func (v *Resolver) isUsable(r *Remote) bool { return r.dest != nil && r.dest.revision == v.Revision }

// resolve begins to make the destination of datagrams to a peer, or lists it to be begun later.
func (v *Resolver) resolve(peer int, remote *Remote, again bool) error {
	i, j, err := v.rail.SharedPartition(&remote.Rails[0])
	if err != nil {
		return destinationError(err)
	}
	ud, at, own, params := v.uds[i], remote.Rails[0].Datagrams(j), v.Revision, v.params
	r := &resolution{peer: peer, remote: remote, revision: remote.Revision, again: again}
	r.make = func() (*Destination, error) {
		t, err := newDestination(ud, at, params)
		if err == nil {
			t.revision = own
		}
		return t, err
	}
	remote.resolution = r
	if v.running == MaxResolutions {
		v.waiting = append(v.waiting, r)
		return nil
	}
	v.begin(r)
	return nil
}

// begin makes the call for a resolution.
func (v *Resolver) begin(r *resolution) {
	v.running++
	r.begun = true
	if v.Direct {
		r.dest, r.err = r.make()
		v.done <- r
		return
	}
	v.goroutines.Go(func() {
		r.dest, r.err = r.make()
		v.done <- r
		v.wake()
	})
}

// await waits for the only resolution that has begun. It returns nil if that takes longer than a
// moment, or if there are others.
func (v *Resolver) await() *resolution {
	if v.running != 1 {
		return nil
	}
	select {
	case r := <-v.done:
		return r
	default:
	}
	t := time.NewTimer(v.Patience)
	defer t.Stop()
	select {
	case r := <-v.done:
		return r
	case <-t.C:
		return nil
	}
}

// take takes over the result of a resolution. The error is why there is no destination. Without an
// error the peer is still being resolved if it is tried once more.
func (v *Resolver) take(r *resolution) error {
	v.running--
	to := r.remote
	to.resolution = nil
	if len(v.waiting) > 0 {
		next := v.waiting[0]
		v.waiting[0] = nil // releases its memory
		if v.waiting = v.waiting[1:]; len(v.waiting) == 0 {
			v.waiting = nil
		}
		v.begin(next)
	}
	switch {
	case r.err == nil && r.revision == to.Revision && r.dest.revision == v.Revision:
		to.Forget()
		to.dest = r.dest
		to.dest.stale = r.outdated
		return nil
	case r.err == nil: // an address has changed meanwhile
		r.dest.close()
		return v.resolve(r.peer, to, false)
	case v.isUsable(to):
		to.dest.stale = r.outdated
		return nil
	case errors.Is(r.err, verbs.ErrLimit) && !r.again:
		v.release()
		return v.resolve(r.peer, to, true)
	}
	return destinationError(r.err)
}

// Results returns how many results Next has.
func (v *Resolver) Results() int { return len(v.done) }

// Next takes over the next result. There must be one. The error is why there is no destination: the
// address is not reached, or the device refuses, which is a [*devices.SetUpError]. Without an error
// the peer is still being resolved if it is tried once more.
func (v *Resolver) Next() (peer int, err error) {
	r := <-v.done // only this goroutine receives
	return r.peer, v.take(r)
}
