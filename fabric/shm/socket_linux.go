package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/fdpass"
	ring "github.com/ibrun/ibrun/internal/shm"
	"github.com/ibrun/ibrun/internal/wakesock"
)

// Messages between the peers of a node. Most only wake the receiver; some carry the descriptor of a segment:
//
//	wakesock.Wake
//	'S'  id (8 bytes)  and one descriptor, or none if the segment could not be created
const (
	segmentByte  = 'S'
	segmentBytes = 1 + 8
)

// noFD is used in place of a descriptor that does not exist.
const noFD = -1

// maxKept bounds the number of descriptors that have arrived and were not asked for yet.
const maxKept = 1024

// socket is where a peer receives.
type socket struct {
	fd          int
	receiver    fdpass.Receiver
	descriptors map[uint64]int // of segments that arrived before they were asked for, by id; noFD: it could not be created
	buf         [segmentBytes + 1]byte
}

func newSocket(fd int) *socket { return &socket{fd: fd, descriptors: map[uint64]int{}} }

func (s *socket) close() error {
	for _, fd := range s.descriptors {
		fdpass.Discard(fd)
	}
	return os.NewSyscallError("close", unix.Close(s.fd))
}

// appendSegment appends the message that carries a segment.
func appendSegment(b []byte, id uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, segmentByte), id)
}

// parseSegment returns the id in the message that carries a segment.
func parseSegment(b []byte) (id uint64, ok bool) {
	if len(b) != segmentBytes || b[0] != segmentByte {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[1:]), true
}

// drain reads all messages that have arrived, and keeps the descriptors that came with them.
func (s *socket) drain() error {
	for {
		n, fds, err := s.receiver.Receive(s.fd, s.buf[:])
		switch {
		case err == unix.EAGAIN:
			return nil
		case errors.Is(err, fdpass.ErrTruncated):
			return fmt.Errorf("shm: receive a segment: %w", err)
		case err != nil && !errors.Is(err, fdpass.ErrUnexpected):
			return fmt.Errorf("shm: receive from the peers of this node: %w", err)
		case n == 0 && len(fds) == 0:
			return nil // the end of the stream, as no process sends an empty message
		case n == 1 && len(fds) == 0:
			continue // a wake-up
		}
		s.keepDescriptor(s.buf[:n], fds)
	}
}

// keepDescriptor keeps the descriptor that came with a message.
func (s *socket) keepDescriptor(msg []byte, fds []int) {
	id, ok := parseSegment(msg)
	if !ok || len(fds) > 1 || len(s.descriptors) == maxKept || len(fds) == 1 && ring.Check(fds[0]) != nil {
		fdpass.Discard(fds...) // not from a correct peer
		return
	}
	if old, ok := s.descriptors[id]; ok {
		fdpass.Discard(old)
	}
	s.descriptors[id] = noFD
	if len(fds) == 1 {
		s.descriptors[id] = fds[0]
	}
}

// takeSegment returns the segment with this id if it has arrived, and an error if it could not be created.
func (s *socket) takeSegment(id uint64) (fd int, ok bool, err error) {
	if err := s.drain(); err != nil {
		return noFD, false, err
	}
	return s.takeReceived(id)
}

// takeReceived is takeSegment without reading messages.
func (s *socket) takeReceived(id uint64) (fd int, ok bool, err error) {
	fd, ok = s.descriptors[id]
	delete(s.descriptors, id)
	if ok && fd == noFD {
		return noFD, false, errNotCreated
	}
	return fd, ok, nil
}

var errNotCreated = errors.New("shm: the first peer could not create the segment")

// openSockets obtains the sockets between the peers, and starts to watch for peers that end.
func (d *Domain) openSockets(ctx context.Context, t *Transport) error {
	n := len(d.local)
	ends, send, err := wakesock.Ends{}, []int(nil), error(nil)
	if t.Sockets == nil {
		// The peers of several nodes may be on one machine. Those of one node have the same first peer.
		first := binary.LittleEndian.AppendUint64(nil, uint64(d.local[0]))
		key := auth.Key(auth.Key(t.Key).MAC("node", first))
		ends, send, err = wakesock.Meet(ctx, key, d.selfIndex, n)
	} else {
		if ends.Receive, ends.Send, ends.Ended, err = t.Sockets.Own(ctx); err == nil {
			if err = ends.Check(); err != nil {
				ends.Discard()
			}
		}
	}
	if err != nil {
		return fmt.Errorf("shm: open the sockets of this node: %w", err)
	}
	d.sock, d.senders = newSocket(ends.Receive), newSenders(t.Sockets, n, d.selfIndex, ends.Send)
	for to, fd := range send {
		if to == d.selfIndex {
			fdpass.Discard(fd)
		} else {
			d.senders.fds[to].Store(int32(fd))
		}
	}
	d.watcher, err = wakesock.Watch(ends.Ended, n, d.peerEnded)
	return err
}

// awaitSegment waits for the segment with this id, which the first peer passes. It is for set-up, when nothing else is going on.
func (d *Domain) awaitSegment(ctx context.Context, id uint64) (int, error) {
	for {
		if fd, ok, err := d.sock.takeSegment(id); ok || err != nil {
			return fd, err
		}
		err := waitReadable(ctx, d.sock.fd)
		if err == nil && d.hasEnded(0) {
			err = errFirstEnded
			if fd, ok, _ := d.sock.takeSegment(id); ok { // it has ended after it has passed the segment
				return fd, nil
			}
		}
		if err != nil {
			return noFD, fmt.Errorf("shm: wait for the segment of this node: %w", err)
		}
	}
}

var errFirstEnded = errors.New("the first process of this node has ended")

// waitReadable waits until fd is readable, at most a tenth of a second.
func waitReadable(ctx context.Context, fd int) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int((100 * time.Millisecond).Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("poll", err)
	}
	return nil
}
