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
	// heartbeatInterval is the time between two heartbeats of a side.
	heartbeatInterval = 500 * time.Millisecond
	// minHeartbeats is how many intervals without a heartbeat are tolerated at least.
	minHeartbeats = 5
	// closeTimeout bounds how long Close waits until the other side has received all messages.
	closeTimeout = time.Second
)

// ErrClosed is returned after Close was called on this side.
var ErrClosed = errors.New("control: connection closed")

// Conn is the connection between node 0 and another node. Any goroutine may call its methods at any time, but only one at a time
// may call Recv. Some goroutine must always be in Recv, because Recv also receives the heartbeats.
type Conn struct {
	raw         net.Conn
	node, nodes int
	// heartbeat bounds how long a read or a write may take before the other side is lost.
	heartbeat time.Duration
	reader    frameReader // used by Recv only
	writer    frameWriter // used by writeLoop only
	clock     peerClock

	writerDone    chan struct{} // closed when writeLoop has returned
	writeWake     chan struct{} // holds a value if there may be something to write
	peerSuspended atomic.Bool   // the other side has announced that it stops reading and writing

	mu           sync.Mutex
	queue        []frame
	heartbeatDue bool // send one now
	closing      bool
	suspended    bool  // between Suspend and Resume
	err          error // why the connection ended; the first error
}

// newConn returns the connection after its handshake. Each direction has its own key.
func newConn(raw net.Conn, handshake *auth.Transcript, node, nodes int,
	heartbeat time.Duration, isNode0 bool) (*Conn, error) {
	toNode, err := handshake.Derive("node 0 to node")
	if err != nil {
		return nil, err
	}
	toNode0, err := handshake.Derive("node to node 0")
	if err != nil {
		return nil, err
	}
	if isNode0 {
		toNode0, toNode = toNode, toNode0
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if err := enableKeepAlive(raw, heartbeat); err != nil {
		return nil, err
	}
	c := &Conn{raw: raw, node: node, nodes: nodes, heartbeat: heartbeat, reader: frameReader{key: toNode},
		writer: frameWriter{key: toNode0}, writerDone: make(chan struct{}), writeWake: make(chan struct{}, 1)}
	go c.writeLoop()
	return c, nil
}

// Node returns the number of the node that is not node 0.
func (c *Conn) Node() int { return c.node }

// Nodes returns how many nodes the job has according to that node.
func (c *Conn) Nodes() int { return c.nodes }

// Local returns the address of this side.
func (c *Conn) Local() net.Addr { return c.raw.LocalAddr() }

// Remote returns the address of the other side.
func (c *Conn) Remote() net.Addr { return c.raw.RemoteAddr() }

// ClockOffset returns how far the other side's wall clock is ahead of this one's. ok is false until the first round trip.
func (c *Conn) ClockOffset() (ahead time.Duration, ok bool) { return c.clock.estimate() }

// Send queues a message of at most [MaxMessage] bytes and does not block. The caller must not change the message afterwards. If
// it cannot be sent, the connection has failed, and Recv returns the reason.
func (c *Conn) Send(message []byte) error {
	if len(message) > MaxMessage {
		return fmt.Errorf("control: message of %d bytes; the limit is %d", len(message), MaxMessage)
	}
	c.enqueue(frame{kind: kindMessage, body: message})
	return nil
}

// Suspend notifies the other side that this process is about to be stopped, so that missing heartbeats do not count as a failure.
// It returns when the notification has been sent or the connection has failed. Resume ends the suspension.
func (c *Conn) Suspend() {
	c.setSuspended(true)
	done := make(chan struct{})
	c.enqueue(frame{kind: kindSuspend, sent: done})
	select {
	case <-done:
	case <-c.writerDone:
	}
}

// Resume starts to send heartbeats again.
func (c *Conn) Resume() {
	c.setSuspended(false)
	c.queueHeartbeat()
}

func (c *Conn) setSuspended(suspended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspended = suspended
	_ = c.setReadDeadline() // if the connection has failed, Recv returns the error
}

// setReadDeadline bounds the wait for the next frame. The caller must hold mu.
func (c *Conn) setReadDeadline() error {
	deadline := time.Now().Add(c.heartbeat)
	if c.suspended || c.peerSuspended.Load() {
		deadline = time.Time{} // TCP keepalive still detects that the other machine has failed
	}
	return c.raw.SetReadDeadline(deadline)
}

func (c *Conn) enqueue(f frame) {
	c.mu.Lock()
	c.queue = append(c.queue, f)
	c.mu.Unlock()
	c.wakeWriter()
}

// queueHeartbeat makes writeLoop send a heartbeat now.
func (c *Conn) queueHeartbeat() {
	c.mu.Lock()
	c.heartbeatDue = true
	c.mu.Unlock()
	c.wakeWriter()
}

// wakeWriter makes writeLoop check the queue.
func (c *Conn) wakeWriter() {
	select {
	case c.writeWake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// Recv returns the next message, which belongs to the caller. An error is final. It is io.EOF if the other side has closed the
// connection, [ErrClosed] after Close, and otherwise the reason why the other side was lost.
func (c *Conn) Recv() ([]byte, error) {
	for {
		f, err := c.readFrame()
		if err != nil {
			c.setError(err)
			c.raw.Close()
			return nil, c.firstError()
		}
		c.peerSuspended.Store(f.kind == kindSuspend)
		switch f.kind {
		case kindMessage:
			return f.body, nil
		case kindHeartbeat:
			if c.clock.receive(f.body, time.Now()) {
				c.queueHeartbeat() // so that the other side completes a round trip as well
			}
		}
	}
}

// readFrame returns the next frame, or an error if none arrives in time.
func (c *Conn) readFrame() (frame, error) {
	c.mu.Lock()
	err := c.setReadDeadline()
	c.mu.Unlock()
	if err != nil {
		return frame{}, err
	}
	return c.reader.read(c.raw)
}

// writeLoop sends queued frames and heartbeats until the connection is closed or fails.
func (c *Conn) writeLoop() {
	defer close(c.writerDone)
	ticker := time.NewTicker(min(heartbeatInterval, c.heartbeat/minHeartbeats))
	defer ticker.Stop()
	c.queueHeartbeat()
	for {
		tick := false
		select {
		case <-c.writeWake:
		case <-ticker.C:
			tick = true
		}
		frames, last := c.dequeue(tick)
		for _, f := range frames {
			if err := c.writeFrame(f); err != nil {
				c.setError(err)
				c.raw.Close() // makes Recv return
				return
			}
		}
		if last {
			return
		}
	}
}

// dequeue returns the frames to write now. last reports whether no more will follow.
func (c *Conn) dequeue(tick bool) (frames []frame, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	frames, c.queue = c.queue, nil
	if (tick || c.heartbeatDue) && !c.suspended && !c.peerSuspended.Load() {
		frames = append(frames, frame{kind: kindHeartbeat})
	}
	if n := len(frames); c.suspended && n > 0 && frames[n-1].kind != kindSuspend {
		frames = append(frames, frame{kind: kindSuspend}) // otherwise the frames before it would end the suspension on the other side
	}
	c.heartbeatDue = false
	return frames, c.closing
}

func (c *Conn) writeFrame(f frame) error {
	if f.kind == kindHeartbeat {
		f.body = c.clock.heartbeat(time.Now())
	}
	if err := c.raw.SetWriteDeadline(time.Now().Add(c.heartbeat)); err != nil {
		return err
	}
	_, err := c.raw.Write(c.writer.encode(f))
	if f.sent != nil {
		close(f.sent)
	}
	return err
}

// setError records why the connection ended, unless an earlier reason is recorded.
func (c *Conn) setError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
	case c.closing:
		c.err = ErrClosed
	case errors.Is(err, errTimeout):
		c.err = fmt.Errorf("no heartbeat for %v", c.heartbeat)
	default:
		c.err = err
	}
}

func (c *Conn) firstError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close closes the connection. Before that it waits, for at most a second, until the other side has received all messages. Close
// may be called more than once.
func (c *Conn) Close() {
	c.mu.Lock()
	again := c.closing
	c.closing = true
	c.mu.Unlock()
	if again {
		<-c.writerDone
		return
	}
	defer c.raw.Close()
	c.wakeWriter()
	deadline := time.Now().Add(closeTimeout)
	select {
	case <-c.writerDone:
	case <-time.After(closeTimeout):
		return
	}
	// If a TCP socket is closed while received data is unread, the kernel resets the connection, and the other side loses data that
	// it has not read yet. So read everything first.
	half, ok := c.raw.(interface{ CloseWrite() error })
	if ok && half.CloseWrite() == nil && c.raw.SetReadDeadline(deadline) == nil {
		_, _ = io.Copy(io.Discard, c.raw)
	}
}
