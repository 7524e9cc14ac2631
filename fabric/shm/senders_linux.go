package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/fdpass"
	"github.com/ibrun/ibrun/internal/wakesock"
)

// senders are the sockets that lead to the peers of the node. A launcher provides them when they are requested, without a wait: a
// wake-up for a peer whose socket has not arrived is sent when it arrives.
//
// Any goroutine may call wake. The other methods belong to the goroutine that uses the domain.
type senders struct {
	sockets Sockets        // nil: all are there from the start
	fds     []atomic.Int32 // by local number: the descriptor, or noFD; it is closed only by close and release
	arrived chan struct{}  // receives when a socket arrives, or cannot be obtained

	mu     sync.Mutex
	states []senderState // by local number
	closed bool
}

// senderState is the state of a socket that has not arrived.
type senderState struct {
	requested   bool
	wakePending bool  // wake the peer when the socket arrives
	err         error // why it cannot be obtained
}

func newSenders(sockets Sockets, n, self, toSelf int) *senders {
	s := &senders{sockets: sockets, fds: make([]atomic.Int32, n), states: make([]senderState, n), arrived: make(chan struct{}, 1)}
	for i := range s.fds {
		s.fds[i].Store(noFD)
	}
	s.fds[self].Store(int32(toSelf))
	return s
}

// wakeMessage only wakes the receiver.
var wakeMessage = [...]byte{wakesock.Wake}

// wake makes the peer's socket readable. If the socket's queue is full it is readable already.
func (s *senders) wake(to int) {
	if fd := s.fds[to].Load(); fd != noFD {
		sendWake(int(fd))
		return
	}
	s.request(to, true)
}

// sendWake sends the message that wakes the receiver.
func sendWake(fd int) {
	// An error is ignored: a peer that has closed its socket does not sleep, and its end is reported otherwise.
	_ = unix.Send(fd, wakeMessage[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// request requests the socket to a peer, if that has not been done, and wakes the peer if wanted.
func (s *senders) request(to int, wake bool) {
	if !s.startRequest(to, wake) {
		return
	}
	// Without the lock: the launcher may have to deliver other sockets before it accepts the request.
	if err := s.sockets.Request(to, func(fd int, err error) { s.deliver(to, fd, err) }); err != nil {
		s.deliver(to, noFD, err) // the launcher has ended
	}
}

// startRequest does what request does without the launcher. It reports whether the caller must request the socket.
func (s *senders) startRequest(to int, wake bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := &s.states[to]
	fd := int(s.fds[to].Load())
	switch {
	case s.closed:
	case fd != noFD:
		if wake {
			sendWake(fd)
		}
	case s.sockets == nil:
	case state.err != nil:
		if wake {
			s.sockets.Wake(to)
		}
	default:
		first := !state.requested
		state.requested, state.wakePending = true, state.wakePending || wake
		return first
	}
	return false
}

// deliver stores a socket that has arrived, and sends the wake-up that waits for it. Any goroutine may call it.
func (s *senders) deliver(to, fd int, err error) {
	if err == nil {
		err = fdpass.CheckUnixSocket(fd, unix.SOCK_SEQPACKET)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state := &s.states[to]
	if s.closed || err != nil || s.fds[to].Load() != noFD {
		fdpass.Discard(fd)
	} else {
		s.fds[to].Store(int32(fd))
	}
	state.err = err
	switch wake := state.wakePending; { // false after close
	case wake && err == nil:
		sendWake(int(s.fds[to].Load()))
	case wake:
		s.sockets.Wake(to)
	}
	state.wakePending = false
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// get returns the socket to a peer, or ErrAgain if it has not arrived.
func (s *senders) get(to int) (int, error) {
	if fd := s.fds[to].Load(); fd != noFD {
		return int(fd), nil
	}
	s.request(to, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.states[to].err; err != nil {
		return noFD, err
	}
	return noFD, fabric.ErrAgain
}

// await returns the socket to a peer when it has arrived. It is for set-up, when nothing else is going on.
func (s *senders) await(ctx context.Context, to int) (int, error) {
	for {
		fd, err := s.get(to)
		if err != fabric.ErrAgain {
			return fd, err
		}
		select {
		case <-s.arrived:
		case <-ctx.Done():
			return noFD, context.Cause(ctx)
		}
	}
}

// release closes the socket to a peer until it is requested again. It does nothing if it could not be requested.
func (s *senders) release(to int) {
	if s.sockets == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if fd := s.fds[to].Swap(noFD); fd != noFD {
		s.states[to] = senderState{}
		fdpass.Discard(int(fd))
	}
}

// close closes all sockets, also those that arrive later. The launcher wakes the peers whose wake-up waits for a socket: their
// flag is cleared, so no other peer wakes them, and on a large node they do not learn of the end of this process (see
// wakesock.Watch).
func (s *senders) close() error {
	pending, err := s.markClosed()
	for _, to := range pending { // without the lock, as in request
		s.sockets.Wake(to)
	}
	return err
}

// markClosed does what close does without the launcher. It returns the peers whose wake-up is pending.
func (s *senders) markClosed() (pending []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for i := range s.fds {
		if s.states[i].wakePending {
			s.states[i].wakePending = false
			pending = append(pending, i)
		}
		if fd := s.fds[i].Swap(noFD); fd != noFD {
			errs = append(errs, os.NewSyscallError("close", unix.Close(int(fd))))
		}
	}
	return pending, errors.Join(errs...)
}

// sendSegment passes a descriptor to a peer, or notifies it that there is none. It returns false if the peer cannot receive it
// now.
func (s *senders) sendSegment(to int, id uint64, fd int) (bool, error) {
	sock, err := s.get(to)
	if err == fabric.ErrAgain {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var fds []int
	if fd != noFD {
		fds = []int{fd}
	}
	switch err := fdpass.Send(sock, appendSegment(nil, id), fds...); {
	case err == nil:
		return true, nil
	case err == unix.EAGAIN, errors.Is(err, unix.ETOOMANYREFS):
		return false, nil
	default:
		return false, err
	}
}

// requestAhead is the number of sockets that sendNodeSegment requests before it needs them.
const requestAhead = 8

// sendNodeSegment passes the node's segment to all other peers.
func (d *Domain) sendNodeSegment(ctx context.Context, fd int) error {
	for to := 1; to < len(d.local); to++ {
		for ahead := to; ahead < min(to+requestAhead, len(d.local)); ahead++ {
			d.senders.request(ahead, false)
		}
		if err := d.sendNodeSegmentTo(ctx, to, fd); err != nil {
			return fmt.Errorf("shm: pass the node's segment to peer %d: %w", d.local[to], err)
		}
		d.senders.release(to) // it may never be needed again
	}
	return nil
}

// sendNodeSegmentTo passes the node's segment to one peer. That a peer has ended is reported by Poll.
func (d *Domain) sendNodeSegmentTo(ctx context.Context, to, fd int) error {
	if _, err := d.senders.await(ctx, to); err != nil {
		return err
	}
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		ok, err := d.senders.sendSegment(to, nodeSegmentID, fd)
		if ok || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ECONNRESET) {
			return nil
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		time.Sleep(pause)
	}
}
