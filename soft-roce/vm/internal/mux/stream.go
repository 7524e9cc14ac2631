package mux

import (
	"encoding/binary"
	"io"
)

// Stream is a sequence of bytes in each direction. One goroutine may read while others write; each Write of up to
// 32 KiB arrives undivided by those of others. Close may be called from anywhere, and any number of times.
type Stream struct {
	session *Session
	id      uint32

	// Guarded by session.mu.
	in     []byte // arrived and not read
	taken  int    // bytes read since the other end was last given credit
	credit int    // bytes that may be sent
	ended  bool   // the other end has closed
	closed bool   // this end has closed
}

// Read waits for bytes and returns io.EOF once the other end has closed and all is read.
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
		st.in = nil // or it would grow at its end for ever
	}
	grant := 0
	if st.taken += n; st.taken >= window/2 && !st.ended {
		grant, st.taken = st.taken, 0
	}
	s.mu.Unlock()
	if grant > 0 {
		// If this fails the session is over, and the next Read says so.
		_ = s.write(frame{kind: kindCredit, id: st.id, data: binary.LittleEndian.AppendUint32(nil, uint32(grant))})
	}
	return n, nil
}

// Write waits until the window has room.
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

// reserve takes that many bytes out of the window, waiting for all of them.
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

// Close ends the stream in both directions. The other end still reads what was written before.
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

// awaitEnd returns when either end has closed, or the session is over, read or not.
func (st *Stream) awaitEnd() {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	for !st.ended && !st.closed && s.err == nil {
		s.wake.Wait()
	}
}
