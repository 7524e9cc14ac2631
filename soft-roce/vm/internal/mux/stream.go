package mux

import (
	"encoding/binary"
	"io"
)

// Stream is a sequence of bytes in each direction. One goroutine may read while others write. A Write of up to 32 KiB is
// not mixed with concurrent writes. Close may be called concurrently and repeatedly.
type Stream struct {
	session *Session
	id      uint32

	// Guarded by session.mu.
	in     []byte // received and not read
	taken  int    // bytes read since the last credit was sent
	credit int    // bytes that may be sent
	ended  bool   // the other end has closed
	closed bool   // this end has closed
}

// Read blocks until there are bytes. It returns io.EOF when the other end has closed and all bytes are read.
func (st *Stream) Read(p []byte) (int, error) {
	s := st.session
	s.mu.Lock()
	for len(st.in) == 0 && !st.ended && !st.closed && s.err == nil {
		s.wake.Wait()
	}
	if len(st.in) == 0 || st.closed {
		defer s.mu.Unlock()
		switch {
		case st.closed:
			return 0, ErrClosed
		case st.ended:
			return 0, io.EOF
		}
		return 0, s.err
	}
	n := copy(p, st.in)
	if st.in = st.in[n:]; len(st.in) == 0 {
		st.in = nil // free the buffer: append would never reuse its beginning
	}
	grant := 0
	if st.taken += n; st.taken >= window/2 && !st.ended {
		grant, st.taken = st.taken, 0
	}
	s.mu.Unlock()
	if grant > 0 {
		// If this fails the session has ended, and the next Read returns the error.
		_ = s.write(frame{kind: kindCredit, id: st.id, data: binary.LittleEndian.AppendUint32(nil, uint32(grant))})
	}
	return n, nil
}

// Write blocks until the window has room.
func (st *Stream) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n, err := st.reserve(min(len(p)-sent, pieceSize))
		if err != nil {
			return sent, err
		}
		if err := st.session.write(frame{kind: kindData, id: st.id, data: p[sent : sent+n]}); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// reserve takes n bytes of credit. It blocks until the window has that many.
func (st *Stream) reserve(n int) (int, error) {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.err != nil:
			return 0, s.err
		case st.closed || st.ended:
			return 0, ErrClosed
		case st.credit >= n:
			st.credit -= n
			return n, nil
		}
		s.wake.Wait()
	}
}

// Close closes the stream in both directions. The other end can still read the bytes written before.
func (st *Stream) Close() error {
	s := st.session
	s.mu.Lock()
	was, over := st.closed, s.err != nil
	st.closed, st.in = true, nil
	if st.ended {
		delete(s.streams, st.id)
	}
	s.wake.Broadcast()
	s.mu.Unlock()
	if was || over {
		return nil
	}
	return s.write(frame{kind: kindClose, id: st.id})
}

// awaitEnd blocks until either end has closed or the session has ended. Unread bytes do not matter.
func (st *Stream) awaitEnd() {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	for !st.ended && !st.closed && s.err == nil {
		s.wake.Wait()
	}
}
