package control

import (
	"errors"
	"net"
	"time"
)

// link is one TCP connection of a [Conn], or its pipes, perhaps encrypted, from its handshake until it breaks or another one
// takes its place. Each has keys of its own.
type link struct {
	raw    net.Conn
	reader frameReader // used by readLoop only
	writer frameWriter // used by writeLoop only
	wake   chan struct{}
	gone   chan struct{} // closed when the Conn does not use this link any more

	// These belong to the Conn, and its mu protects them.
	ackWritten   uint64 // the last number of received messages that was sent
	fresh        bool   // nothing was sent yet
	closeWritten bool
	writeError   error     // of a pipe, which is only read since then
	draining     time.Time // when that error occurred; zero: there was none
	writing      time.Time // when the write began that is going on; zero: none
}

// newLink returns a link after its handshake. Each direction has its own key.
func newLink(g *greeting, isCoordinator bool) (*link, error) {
	toNode, err := g.transcript.Derive("node 0 to node")
	if err != nil {
		return nil, err
	}
	toCoordinator, err := g.transcript.Derive("node to node 0")
	if err != nil {
		return nil, err
	}
	if isCoordinator {
		toCoordinator, toNode = toNode, toCoordinator
	}
	return &link{raw: g.conn, reader: frameReader{key: toNode}, writer: frameWriter{key: toCoordinator}, fresh: true,
		wake: make(chan struct{}, 1), gone: make(chan struct{})}, nil
}

// wakeWriter makes writeLoop look for frames to write.
func (l *link) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// heardReader reads from a link. Every byte counts as a sign of life, so a long frame may take longer than a heartbeat.
type heardReader struct {
	c *Conn
	l *link
}

func (r heardReader) Read(b []byte) (int, error) {
	for {
		r.c.prepareRead(r.l)
		n, err := r.l.raw.Read(b)
		if n > 0 {
			r.c.noteHeard()
		}
		if n > 0 || !errors.Is(err, errTimeout) || !r.c.expects(r.l) {
			return n, err
		}
	}
}

// readLoop processes what the other side sends until the link breaks.
func (c *Conn) readLoop(l *link) {
	from := heardReader{c, l}
	for {
		f, err := l.reader.read(from)
		if err == nil {
			err = c.handleFrame(l, f)
		}
		if err != nil {
			c.linkFailed(l, err)
			return
		}
	}
}

// writeLoop sends messages, acknowledgements and heartbeats until the link breaks.
func (c *Conn) writeLoop(l *link) {
	ticker := time.NewTicker(c.interval())
	defer ticker.Stop()
	guard := newWriteGuard(c, l)
	for tick := true; ; {
		frames, more := c.nextFrames(l, tick)
		for _, f := range frames {
			if err := c.writeFrame(l, guard, f); err != nil {
				c.writeFailed(l, err)
				return
			}
		}
		c.noteWritten(l, frames)
		tick = false
		if more {
			continue
		}
		select {
		case <-l.wake:
		case <-ticker.C:
			tick = true
		case <-l.gone:
			return
		}
	}
}

// writeFrame writes one frame. The other side must take each piece of it before the time of a heartbeat is over.
func (c *Conn) writeFrame(l *link, guard *writeGuard, f frame) error {
	defer guard.end()
	if f.kind == kindHeartbeat {
		f.body = c.clock.heartbeat(time.Now())
	}
	for b := l.writer.encode(f); len(b) > 0; {
		guard.begin()
		n, err := l.raw.Write(b[:min(len(b), writePiece)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// closeWrite notifies the other side that nothing follows. It continues to read, because the kernel resets a connection that
// is closed while received bytes are unread, and the other side would lose what it has not read yet.
func (l *link) closeWrite() {
	half, ok := l.raw.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		l.raw.Close()
	}
}
