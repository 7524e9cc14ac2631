package mux

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// window is the number of bytes of a stream that may be sent before the other end has read them.
const window = 256 << 10

// ErrClosed is returned by Write after either end has closed the stream.
var ErrClosed = errors.New("the stream is closed")

// Side is one of the two ends of a session. The host opens streams with odd numbers, the guest with even ones.
type Side uint32

// The two ends.
const (
	Host  Side = 1
	Guest Side = 2
)

// Session carries streams over one channel. Its methods may be called concurrently.
type Session struct {
	conn io.ReadWriteCloser
	send sync.Mutex // held while a frame is written; never while mu is held

	mu       sync.Mutex
	wake     sync.Cond // on mu: a field below or a field of a stream has changed
	streams  map[uint32]*Stream
	nextID   uint32
	arrived  []*Stream // opened by the other end, not yet accepted
	err      error     // the reason of the end of the session; nil before
	finished chan struct{}
}

// NewSession starts a session over conn and owns conn from then on.
func NewSession(conn io.ReadWriteCloser, side Side) *Session {
	s := &Session{conn: conn, streams: map[uint32]*Stream{}, nextID: uint32(side), finished: make(chan struct{})}
	s.wake.L = &s.mu
	go s.receive()
	return s
}

// Close ends the session and all its streams.
func (s *Session) Close() error {
	s.fail(ErrClosed)
	return s.conn.Close()
}

// Done returns a channel that is closed when the session ends, by Close or because the channel broke.
func (s *Session) Done() <-chan struct{} { return s.finished }

// Open opens a stream. The other end gets it from Accept.
func (s *Session) Open() (*Stream, error) {
	s.mu.Lock()
	id := s.nextID
	s.nextID += 2
	st := s.add(id)
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return st, s.write(frame{kind: kindOpen, id: id})
}

// Accept waits for the next stream that the other end opens.
func (s *Session) Accept() (*Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.arrived) == 0 {
		if s.err != nil {
			return nil, s.err
		}
		s.wake.Wait()
	}
	st := s.arrived[0]
	s.arrived = s.arrived[1:]
	return st, nil
}

func (s *Session) add(id uint32) *Stream {
	st := &Stream{session: s, id: id, credit: window}
	s.streams[id] = st
	return st
}

func (s *Session) write(f frame) error {
	s.send.Lock()
	defer s.send.Unlock()
	return f.writeTo(s.conn)
}

func (s *Session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.finished)
	}
	s.wake.Broadcast()
}

// receive handles incoming frames. It blocks only on the channel: unread data of a stream fits into its window. So two ends that
// both write cannot block each other.
func (s *Session) receive() {
	r := bufio.NewReaderSize(s.conn, 2*pieceSize)
	for {
		f, err := decode(r)
		if err == nil {
			err = s.handle(f)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *Session) handle(f frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[f.id]
	switch {
	case f.kind == kindOpen && st == nil && (f.id^s.nextID)&1 != 0:
		s.arrived = append(s.arrived, s.add(f.id))
	case st == nil: // this end closed the stream while the frame was in flight
	case f.kind == kindData && len(st.in)+len(f.data) <= window:
		if !st.closed {
			st.in = append(st.in, f.data...)
		}
	case f.kind == kindCredit && len(f.data) == 4:
		st.credit += int(binary.LittleEndian.Uint32(f.data) % (window + 1))
	case f.kind == kindClose:
		st.ended = true
		if st.closed {
			delete(s.streams, f.id)
		}
	default:
		return fmt.Errorf("%w: kind %d with %d bytes on stream %d", errFrame, f.kind, len(f.data), f.id)
	}
	s.wake.Broadcast()
	return nil
}
