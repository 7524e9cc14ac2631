package control

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/internal/auth"
)

const (
	// beatEvery is how often each side says that it is there, and beatsMissed how many may be missing.
	beatEvery   = 500 * time.Millisecond
	beatsMissed = 5
	// silence is how long nothing may come, or nothing be taken.
	silence = beatsMissed * beatEvery
	// closePatience bounds how long Close waits for what was sent to be taken.
	closePatience = time.Second
)

// ErrClosed says that the connection was closed on this side.
var ErrClosed = errors.New("rendezvous: closed")

// Conn is the connection between node 0 and another node. Any goroutine may call its methods at any time, but Recv only
// one at a time; it must be called all the time, since it takes in the beats too.
type Conn struct {
	raw         net.Conn
	node, nodes int
	in          opener
	out         sealer
	clock       clock

	written chan struct{} // closed when nothing more is written
	wake    chan struct{} // there is something to write
	silent  atomic.Bool   // the other side stands still and takes nothing

	mu      sync.Mutex
	queue   []frame
	due     bool // a beat is
	closing bool
	held    bool // this side stands still
	cause   error
}

// newConn returns the connection after a handshake. Each direction has a key of its own.
func newConn(raw net.Conn, handshake *auth.Transcript, node, nodes int, zero bool) (*Conn, error) {
	down, err := handshake.Derive("node 0 to node")
	if err != nil {
		return nil, err
	}
	up, err := handshake.Derive("node to node 0")
	if err != nil {
		return nil, err
	}
	if zero {
		up, down = down, up
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if err := watchPeer(raw); err != nil {
		return nil, err
	}
	c := &Conn{raw: raw, node: node, nodes: nodes, in: opener{key: down}, out: sealer{key: up},
		written: make(chan struct{}), wake: make(chan struct{}, 1)}
	go c.write()
	return c, nil
}

// Node is the number of the node that is not 0.
func (c *Conn) Node() int { return c.node }

// Nodes is how many nodes that node believes there are.
func (c *Conn) Nodes() int { return c.nodes }

// Local is the address of this side.
func (c *Conn) Local() net.Addr { return c.raw.LocalAddr() }

// Remote is the address of the other side.
func (c *Conn) Remote() net.Addr { return c.raw.RemoteAddr() }

// Clock is what the other side's clock, in nanoseconds since 1970, shows more than this one's. ok is false until it is
// known, which takes a round trip.
func (c *Conn) Clock() (ahead time.Duration, ok bool) { return c.clock.ahead() }

// Send sends a message of at most [MaxMessage] bytes, whose memory it keeps. It does not wait: a message that cannot be
// sent is lost with the connection, and Recv tells.
func (c *Conn) Send(message []byte) error {
	if len(message) > MaxMessage {
		return fmt.Errorf("rendezvous: message of %d bytes, want at most %d", len(message), MaxMessage)
	}
	c.push(frame{kind: kindMessage, body: message})
	return nil
}

// Hold tells the other side that this process is about to be stopped, so that it does not take silence for death. It
// returns when that has been sent, or cannot be. Resume ends it.
func (c *Conn) Hold() {
	c.setHeld(true)
	done := make(chan struct{})
	c.push(frame{kind: kindHold, sent: done})
	select {
	case <-done:
	case <-c.written:
	}
}

// Resume begins to send beats again.
func (c *Conn) Resume() {
	c.setHeld(false)
	c.beat()
}

func (c *Conn) setHeld(held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
	_ = c.limit() // Recv finds out too if the connection is broken
}

// limit bounds the wait for the next frame, with mu held.
func (c *Conn) limit() error {
	deadline := time.Now().Add(silence)
	if c.held || c.silent.Load() {
		deadline = time.Time{} // the kernel tells if the other machine goes
	}
	return c.raw.SetReadDeadline(deadline)
}

func (c *Conn) push(f frame) {
	c.mu.Lock()
	c.queue = append(c.queue, f)
	c.mu.Unlock()
	c.look()
}

// beat has a beat sent now.
func (c *Conn) beat() {
	c.mu.Lock()
	c.due = true
	c.mu.Unlock()
	c.look()
}

// look has write look whether there is something to do.
func (c *Conn) look() {
	select {
	case c.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Recv returns the next message, which is the caller's. Its error is final and says why the other side is lost, or is
// io.EOF if it has closed the connection; [ErrClosed] after Close.
func (c *Conn) Recv() ([]byte, error) {
	for {
		f, err := c.next()
		if err != nil {
			c.fail(err)
			c.raw.Close()
			return nil, c.why()
		}
		c.silent.Store(f.kind == kindHold)
		switch f.kind {
		case kindMessage:
			return f.body, nil
		case kindBeat:
			if c.clock.hear(f.body, time.Now()) {
				c.beat() // the other side wants to know the time as well
			}
		}
	}
}

// next returns the next frame, which has to come in time.
func (c *Conn) next() (frame, error) {
	c.mu.Lock()
	err := c.limit()
	c.mu.Unlock()
	if err != nil {
		return frame{}, err
	}
	return c.in.read(c.raw)
}

// write sends what is pushed, and beats, until the connection is closed or breaks.
func (c *Conn) write() {
	defer close(c.written)
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	c.beat()
	for {
		tick := false
		select {
		case <-c.wake:
		case <-ticker.C:
			tick = true
		}
		frames, last := c.take(tick)
		for _, f := range frames {
			if err := c.writeFrame(f); err != nil {
				c.fail(err)
				c.raw.Close() // ends Recv
				return
			}
		}
		if last {
			return
		}
	}
}

// take returns what is to be written now, and whether that is all.
func (c *Conn) take(tick bool) (frames []frame, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	frames, c.queue = c.queue, nil
	if (tick || c.due) && !c.held && !c.silent.Load() {
		frames = append(frames, frame{kind: kindBeat})
	}
	if n := len(frames); c.held && n > 0 && frames[n-1].kind != kindHold {
		frames = append(frames, frame{kind: kindHold}) // what is sent after the first would be taken for a sign of life
	}
	c.due = false
	return frames, c.closing
}

func (c *Conn) writeFrame(f frame) error {
	if f.kind == kindBeat {
		f.body = c.clock.beat(time.Now())
	}
	if err := c.raw.SetWriteDeadline(time.Now().Add(silence)); err != nil {
		return err
	}
	_, err := c.raw.Write(c.out.seal(f))
	if f.sent != nil {
		close(f.sent)
	}
	return err
}

// fail keeps the first reason why the connection is of no use any more.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cause != nil:
	case c.closing:
		c.cause = ErrClosed
	case errors.Is(err, errTimeout):
		c.cause = fmt.Errorf("nothing was heard of it for %v", silence)
	default:
		c.cause = err
	}
}

func (c *Conn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Close closes the connection once what was sent before has been taken, which it waits for for at most a second. It may
// be repeated.
func (c *Conn) Close() {
	c.mu.Lock()
	again := c.closing
	c.closing = true
	c.mu.Unlock()
	if again {
		<-c.written
		return
	}
	defer c.raw.Close()
	c.look()
	deadline := time.Now().Add(closePatience)
	select {
	case <-c.written:
	case <-time.After(closePatience):
		return
	}
	// A connection that is closed before all that came was read loses what the other side has not read yet.
	half, ok := c.raw.(interface{ CloseWrite() error })
	if ok && half.CloseWrite() == nil && c.raw.SetReadDeadline(deadline) == nil {
		_, _ = io.Copy(io.Discard, c.raw)
	}
}
