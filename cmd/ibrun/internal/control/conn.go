package control

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// heartbeatInterval is the time between two heartbeats of a side.
	heartbeatInterval = 500 * time.Millisecond
	// minHeartbeats is how many heartbeats may be lost at least.
	minHeartbeats = 5
	// closeTimeout bounds how long Close waits until the other side has received all messages.
	closeTimeout = time.Second
	// drainTimeout bounds how long a pipe is read that the other side does not read any more.
	drainTimeout = 5 * time.Second
	// maxUnacknowledged bounds the bytes that are kept for the other side. Beyond it Send blocks. The longest message is far
	// shorter.
	maxUnacknowledged = 16 << 20
	// maxPosted is how many of the same bytes a side may leave unacknowledged that receives nothing. Ranks that exchange much data
	// at once may let Post queue more, so beyond it the other side must only make progress.
	maxPosted = 1 << 30
	// ackBytes is how many received bytes are acknowledged immediately. Fewer are acknowledged with the next heartbeat.
	ackBytes = 256 << 10
	// writeBatch and writePiece are how many bytes are encoded, and passed to the kernel, in one go.
	writeBatch = 256 << 10
	writePiece = 64 << 10
)

// ErrClosed is returned after Close was called on this side.
var ErrClosed = errors.New("control: connection closed")

// ErrSilent means that the other side was silent for longer than the heartbeat.
var ErrSilent = errors.New("no heartbeat")

// ErrInVain means that the other side was silent although another link was made, so it can be reached.
var ErrInVain = errors.New("long packets may not arrive; is the MTU of a switch or tunnel between the two less than that of " +
	"their interfaces?")

// errUnreached means that nothing of what was sent has arrived for longer than the heartbeat, although the other side was heard.
var errUnreached = errors.New("the network does not pass what is sent")

// errStalled is why a link is replaced over which nothing arrives.
var errStalled = errors.New("nothing that was sent has arrived")

// Conn is the connection between the coordinator and another node. If its TCP connection breaks,
// that node makes a new one, and no message is lost or doubled. If its pipe breaks, the connection
// has ended. Any goroutine may call its methods at any time, but only one at a time may call Recv.
type Conn struct {
	node, nodes   int
	isCoordinator bool
	single        bool          // it has one link, a pipe, which cannot be made again
	heartbeat     time.Duration // how long the other side may be silent
	session       sessionID
	banner        []byte   // what listens at the port of listenAlive sends
	local, remote net.Addr // of the first link
	// recover is called in a goroutine of its own when the link has broken, with the value of broken.
	recover   func(broken uint64, why error)
	onEnd     func()        // called once, when the connection has ended
	reachable chan struct{} // closed when the coordinator has reached that port
	clock     peerClock
	lost      chan struct{} // closed when err is set

	mu           sync.Mutex
	changed      sync.Cond // any field below
	link         *link     // nil while the connection is broken, and after its end
	broken       uint64    // how often the link has broken
	out          unackedQueue
	inbox        [][]byte // read, but not returned by Recv; its length is not limited: see Recv
	received     uint64   // how many messages of the other side have arrived
	unacked      int      // bytes of them that were not acknowledged yet
	times        times
	flow         flow // whether what is written arrives
	heartbeatDue bool // send one now
	suspension   suspension
	peerClosed   bool // the other side has called Close
	closing      bool
	err          error // why the connection ended; the first error
}

// times are when something has happened, and since when something is waited for.
type times struct {
	acked     time.Time // when the other side has received a message of out, or since when one waits: see notReceiving
	heard     time.Time // when something of the other side has arrived
	relinked  time.Time // when the first link after heard was attached, or, if there is none, the last one before; zero: none
	awaited   time.Time // since when another link is awaited, the last time that the link broke; zero: it never did
	ran       time.Time // when this process ran last, as far as is known: see noteRunning
	lostSince time.Time // see LostSince
}

// waits returns the times since which a side waits for something.
func (t *times) waits() []*time.Time {
	return []*time.Time{&t.heard, &t.relinked, &t.acked, &t.awaited}
}

// newConn returns the connection that begins with this handshake, and its first link, which is not attached yet. The caller must
// set recover and onEnd.
func newConn(g *greeting, isCoordinator bool) (*Conn, *link, error) {
	c := &Conn{node: g.node, nodes: g.nodes, isCoordinator: isCoordinator, heartbeat: g.heartbeat, local: g.conn.LocalAddr(),
		remote: g.conn.RemoteAddr(), lost: make(chan struct{}), reachable: make(chan struct{})}
	c.changed.L = &c.mu
	id, err := g.transcript.Derive("session")
	if err != nil {
		return nil, nil, err
	}
	alive, err := g.transcript.Derive("alive")
	if err != nil {
		return nil, nil, err
	}
	c.session, c.banner = sessionID(id[:sessionLen]), alive[:bannerLen]
	l, err := newLink(g, isCoordinator)
	return c, l, err
}

// attach starts to use a link, in the place of one that is broken or that the other side has given up. The other side has
// received that many messages.
func (c *Conn) attach(l *link, received uint64) error {
	if err := l.raw.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if err := enableKeepAlive(l.raw, c.heartbeat); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	now := time.Now()
	first := c.times.ran.IsZero()
	if !first {
		c.noteRunning(now)
	}
	if err := c.noteReceived(received, now, c.out.restart); err != nil {
		return err
	}
	c.detach()
	c.setPeerSuspended(false, now)
	c.flow.begin(l.raw, now)
	switch {
	case first:
		c.times.ran, c.times.heard = now, now
		go c.watchRunning()
	case !c.times.relinked.After(c.times.heard):
		c.times.relinked = now
	}
	c.link = l
	c.changed.Broadcast()
	go c.readLoop(l)
	go c.writeLoop(l)
	return nil
}

// detach stops using the link. The caller must hold mu.
func (c *Conn) detach() {
	if c.link != nil {
		innermost(c.link.raw).Close() // TLS would wait until it has sent its own end
		close(c.link.gone)
		c.link = nil
	}
}

// Node returns the number of the node that is not the coordinator.
func (c *Conn) Node() int { return c.node }

// Nodes returns how many nodes the job has according to that node.
func (c *Conn) Nodes() int { return c.nodes }

// Local returns the address of this side.
func (c *Conn) Local() net.Addr { return c.local }

// Remote returns the address of the other side.
func (c *Conn) Remote() net.Addr { return c.remote }

// ClockOffset returns how far the other side's wall clock is ahead of this one's. ok is false until the first round trip.
func (c *Conn) ClockOffset() (ahead time.Duration, ok bool) { return c.clock.estimate() }

// Send queues a message of at most [MaxMessage] bytes. It blocks only while 16 MiB wait for the other side to acknowledge them.
// The caller must not change the message afterwards. If it cannot be sent, the connection has failed, and Recv returns the
// reason.
func (c *Conn) Send(message []byte) error { return c.send(message, true) }

// Post is Send without waiting. If more than 1 GiB waits for the other side, and it has received nothing for the time of a
// heartbeat, the connection ends.
func (c *Conn) Post(message []byte) error { return c.send(message, false) }

func (c *Conn) send(message []byte, wait bool) error {
	if len(message) > MaxMessage {
		return fmt.Errorf("control: message of %d bytes; the limit is %d", len(message), MaxMessage)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for wait && c.out.bytes > maxUnacknowledged && c.err == nil && !c.closing {
		c.changed.Wait()
	}
	now := time.Now()
	if c.out.bytes > maxPosted && c.notReceiving(now) {
		c.end(fmt.Errorf("it has received nothing for %v, and %d MiB wait for it", c.heartbeat, c.out.bytes>>20))
	}
	if c.err == nil && !c.closing {
		if len(c.out.messages) == 0 {
			c.times.acked = now
		}
		c.out.add(message)
		c.wakeWriter()
	}
	return nil
}

// notReceiving reports whether the other side has received nothing for the time of a heartbeat, although something waits for it.
// The time in which a side is suspended does not count. The caller must hold mu.
func (c *Conn) notReceiving(now time.Time) bool {
	c.noteRunning(now)
	return !c.suspension.any() && now.Sub(c.times.acked) > c.heartbeat
}

// noteReceived removes the messages that the other side has received, with a method of out, and records its progress. The caller
// must hold mu.
func (c *Conn) noteReceived(count uint64, now time.Time, remove func(uint64) error) error {
	first := c.out.first
	err := remove(count)
	if c.out.first != first {
		c.times.acked = now
	}
	return err
}

// wakeWriter makes writeLoop look for frames to write. The caller must hold mu.
func (c *Conn) wakeWriter() {
	if c.link != nil {
		c.link.wakeWriter()
	}
}

// Recv returns the next message, which belongs to the caller. An error is final. It is io.EOF if the other side has closed the
// connection, [ErrClosed] after Close, and otherwise the reason why the other side was lost.
//
// The connection is read also while no goroutine calls Recv, for instance while the coordinator
// builds a program: otherwise the other side would wait, and count as lost. What has arrived is
// kept until then. The other side is trusted to send a bounded amount.
func (c *Conn) Recv() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.inbox) == 0 && c.err == nil {
		c.changed.Wait()
	}
	if len(c.inbox) == 0 {
		return nil, c.err
	}
	message := c.inbox[0]
	c.inbox[0] = nil
	c.inbox = c.inbox[1:]
	return message, nil
}

// LostSince returns when the last link broke, or when the other side was heard last if it was silent. The connection may have
// ended much later: first it tries to make another link. LostSince must be called after Recv has returned an error.
func (c *Conn) LostSince() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times.lostSince
}

// Silence returns since when nothing has been received. ok is false if that is no longer than between two heartbeats that may
// be lost, or if this side or the other one is stopped.
func (c *Conn) Silence() (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noteRunning(time.Now())
	return c.times.heard, !c.suspension.any() && time.Since(c.times.heard) > minHeartbeats*c.interval()
}

// waitUntil blocks until done returns true, the connection has ended, or the time is over. The caller must hold mu, and done is
// called with it.
func (c *Conn) waitUntil(limit time.Duration, done func() bool) {
	over := false
	t := time.AfterFunc(limit, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		over = true
		c.changed.Broadcast()
	})
	defer t.Stop()
	for !over && c.err == nil && !done() {
		c.changed.Wait()
	}
}

// handleFrame processes a frame of a link. An error breaks the link, or ends the connection if the other side does not follow
// the protocol.
func (c *Conn) handleFrame(l *link, f frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != l {
		return errReplaced // another link counts the messages now
	}
	c.setPeerSuspended(f.kind == kindSuspend, time.Now())
	switch f.kind {
	case kindMessage:
		c.inbox = append(c.inbox, f.body)
		c.received++
		if c.unacked += len(f.body); c.unacked >= ackBytes {
			l.wakeWriter()
		}
	case kindHeartbeat:
		if c.clock.receive(f.body, time.Now()) {
			c.heartbeatDue = true // so that the other side completes a round trip as well
			l.wakeWriter()
		}
	case kindAck:
		count, err := decodeAck(f.body)
		if err == nil {
			err = c.noteReceived(count, time.Now(), c.out.acknowledge)
		}
		if err != nil {
			return err
		}
	case kindClose:
		c.peerClosed = true
		l.wakeWriter() // acknowledges all messages
	}
	c.changed.Broadcast()
	return nil
}

// nextFrames returns the frames to write now. more reports whether others follow immediately.
func (c *Conn) nextFrames(l *link, tick bool) (frames []frame, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != l {
		return nil, false
	}
	if l.fresh || (tick || c.peerClosed || c.closing || c.unacked >= ackBytes) && l.ackWritten != c.received {
		frames = append(frames, frame{kind: kindAck, body: encodeAck(c.received)})
		l.fresh, l.ackWritten, c.unacked = false, c.received, 0
	}
	for _, m := range c.out.take(writeBatch) {
		frames = append(frames, frame{kind: kindMessage, body: m})
	}
	if (tick || c.heartbeatDue) && !c.suspension.any() {
		frames = append(frames, frame{kind: kindHeartbeat})
	}
	c.heartbeatDue = false
	more = c.out.written < len(c.out.messages)
	if c.closing && !more && !l.closeWritten {
		frames = append(frames, frame{kind: kindClose})
	}
	// The notification comes last, because every other frame ends the suspension on the other side.
	if c.suspension.here && (!c.suspension.notified || len(frames) > 0) {
		frames = append(frames, frame{kind: kindSuspend})
	}
	return frames, more
}

// noteWritten is called after frames were written.
func (c *Conn) noteWritten(l *link, frames []frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range frames {
		switch f.kind {
		case kindSuspend:
			c.suspension.notified = true
		case kindClose:
			l.closeWritten = true
		}
	}
	c.changed.Broadcast()
}

// readDeadline returns when a link counts as broken if nothing is read from it; zero: never. The
// coordinator waits for the whole time. The other node tries a new link earlier, because a device
// between them may have forgotten this one without a message. That a link was made is not a sign of
// life, but the first one gets some time of its own. The caller must hold mu.
func (c *Conn) readDeadline(l *link) (at time.Time) {
	switch {
	case !l.draining.IsZero():
		return l.draining.Add(drainTimeout)
	case c.suspension.any():
		return time.Time{} // TCP keepalive still detects that the other machine has failed
	case c.isCoordinator, c.single:
		at = c.times.heard.Add(c.heartbeat)
	default:
		at = c.times.heard.Add(c.heartbeat / 2)
	}
	if fresh := c.times.relinked.Add(c.heartbeat / 2); c.times.relinked.After(c.times.heard) && fresh.After(at) {
		return fresh
	}
	return at
}

// setReadDeadline sets the deadline of reads from a link. The caller must hold mu.
func (c *Conn) setReadDeadline(l *link) {
	if l != nil {
		_ = l.raw.SetReadDeadline(c.readDeadline(l)) // if the link is broken, the next read returns the error
	}
}

// prepareRead sets the deadline of the next read from a link.
func (c *Conn) prepareRead(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setReadDeadline(l)
}

// noteHeard records that the other side lives.
func (c *Conn) noteHeard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times.heard = time.Now()
}

// linkFailed stops using a link that is broken. Unless that ends the connection, recover finds out whether there will be
// another one.
func (c *Conn) linkFailed(l *link, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != l {
		return // another link has taken its place
	}
	c.detach()
	c.changed.Broadcast()
	if c.times.lostSince = time.Now(); errors.Is(why, errTimeout) || errors.Is(why, syscall.ETIMEDOUT) {
		c.times.lostSince = c.times.heard
	}
	if l.writeError != nil && !errors.Is(why, errProtocol) {
		why, c.times.lostSince = l.writeError, l.draining
	}
	switch {
	case c.peerClosed:
		c.end(io.EOF)
	case errors.Is(why, errProtocol):
		c.end(why)
	case (c.isCoordinator || c.single) && errors.Is(why, errTimeout):
		c.end(c.silence(c.heartbeat))
	default:
		c.broken++
		c.times.awaited = time.Now()
		if c.suspension.any() {
			c.restartClocks(c.times.awaited) // nothing was expected until now
		}
		go c.recover(c.broken, why)
	}
}

// writeFailed is called when a link cannot be written to. What the other side of a pipe has written before it closed its ends can
// still be read, and contains the reason why they were closed. Over TCP it is sent again on the next link.
func (c *Conn) writeFailed(l *link, why error) {
	if !c.single {
		c.linkFailed(l, why)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.link != l:
	case errors.Is(why, errTimeout):
		c.end(fmt.Errorf("it has read nothing for %v", c.heartbeat))
	default:
		l.writeError, l.draining = why, time.Now()
		c.setReadDeadline(l)
	}
}

// inVain reports whether a link has replaced another one, and nothing was heard over it except, perhaps, the short frames with
// which a link begins. The caller must hold mu.
func (c *Conn) inVain() bool {
	return !c.times.relinked.IsZero() && c.times.heard.Sub(c.times.relinked) < c.interval()
}

// silence returns the error for a side that was silent for that time, which is too long. The caller must hold mu.
func (c *Conn) silence(d time.Duration) error {
	if !c.inVain() {
		return fmt.Errorf("%w for %v", ErrSilent, d)
	}
	return fmt.Errorf("%w for %v, although another connection was made: %w", ErrSilent, d, ErrInVain)
}

// checkFlow finds out whether what is written to a link arrives. If not for half of the time of a
// heartbeat, the node that is not the coordinator makes another link; if nothing arrives over that
// one either, the connection ends. The time in which a side is suspended does not count.
func (c *Conn) checkFlow(l *link, now time.Time) {
	c.mu.Lock()
	stalled := time.Duration(0)
	switch {
	case c.link != l:
	case c.suspension.any():
		c.flow.pause(now)
	default:
		stalled = c.flow.stalled(l.raw, now, c.heartbeat/4)
	}
	err := c.judge(stalled, now)
	c.mu.Unlock()
	if err != nil {
		c.linkFailed(l, err)
	}
}

// judge ends the connection if nothing that was written has arrived for too long. It returns an error if another link is to be
// made. The caller must hold mu.
func (c *Conn) judge(stalled time.Duration, now time.Time) error {
	switch {
	case stalled >= c.heartbeat && c.flow.again():
		c.times.lostSince = now.Add(-stalled)
		c.end(fmt.Errorf("%w: nothing has arrived there for %v: %w", errUnreached, c.heartbeat, c.flow.cause()))
	case stalled >= c.heartbeat/2 && !c.flow.again() && !c.isCoordinator:
		return errStalled
	}
	return nil
}

// end ends the connection for this reason, unless it has ended. The caller must hold mu.
func (c *Conn) end(why error) {
	if c.err != nil {
		return
	}
	if c.times.lostSince.IsZero() {
		c.times.lostSince = time.Now()
	}
	if c.err = why; c.closing {
		c.err = ErrClosed
	}
	c.detach()
	close(c.lost)
	c.changed.Broadcast()
	go c.onEnd()
}

// Close closes the connection. Before that it waits, for at most a second, until the other side has received all messages. Close
// may be called more than once.
func (c *Conn) Close() { c.CloseWithin(closeTimeout) }

// CloseWithin is Close with another limit. It does not wait for a side that is lost.
func (c *Conn) CloseWithin(limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		c.waitUntil(limit, func() bool { return false })
		return
	}
	c.closing = true
	c.changed.Broadcast()
	c.wakeWriter()
	deadline := time.Now().Add(limit)
	complete := func() bool {
		return len(c.out.messages) == 0 && c.link != nil && c.link.closeWritten && c.link.ackWritten == c.received
	}
	c.waitUntil(limit, complete)
	// If the other side does not read, a write is going on, and TLS would wait for its end.
	if l := c.link; c.err == nil && complete() {
		l.closeWrite()
		c.waitUntil(time.Until(deadline), func() bool { return c.link != l })
	}
	c.end(ErrClosed)
}

func encodeAck(received uint64) []byte { return binary.BigEndian.AppendUint64(nil, received) }

// decodeAck returns the number of messages that the other side has received.
func decodeAck(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: an acknowledgement of %d bytes", errProtocol, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}
