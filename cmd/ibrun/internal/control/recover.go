package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// The time between two attempts to make a new link, or to find out whether the other side lives, doubles between these.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = time.Second
	// lastReachRetry takes the place of lastRetry if the coordinator has never reached the other
	// side: mostly a firewall prevents that.
	lastReachRetry = time.Minute
)

// ErrDied means that the ibrun on the other side does not exist any more.
var ErrDied = errors.New("its ibrun was killed or has crashed")

// errGivenUp means that the coordinator does not know the session of this node any more.
var errGivenUp = errors.New("it has given up this node")

// remaining returns how long a broken connection may stay broken, 0 if its time is over. A side that has announced that it is
// stopped has no such limit while its host answers.
func (c *Conn) remaining(answered bool) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.noteRunning(now)
	if answered && c.suspension.any() {
		c.restartClocks(now)
	}
	return max(0, time.Until(c.times.heard.Add(c.heartbeat)))
}

// pause waits until the next attempt. It reports false if the connection has ended.
func (c *Conn) pause(d time.Duration) bool {
	select {
	case <-c.lost:
		return false
	case <-time.After(d):
		return true
	}
}

// untilLost returns a context that ends when the connection does.
func (c *Conn) untilLost() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-c.lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// redialer makes new links of a node to the coordinator.
type redialer struct {
	conn     *Conn
	security Security
}

// recover tries to make a new link until that succeeds, or the coordinator has died, or the time is
// over.
func (r *redialer) recover(broken uint64, why error) {
	c := r.conn
	ctx, cancel := c.untilLost()
	defer cancel()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		answered, err := r.attempt(ctx)
		switch {
		case err == nil:
			return
		case refused(err), errors.Is(err, ErrSecret), errors.Is(err, ErrNotIbrun), errors.Is(err, ErrVersion):
			c.endGone(broken, ErrDied) // no process listens at its port, or another program does
		case errors.Is(err, errGivenUp):
			c.endGone(broken, err)
		case errors.Is(err, errProtocol):
			c.endBroken(broken, err)
		}
		left := c.remaining(answered)
		if left == 0 {
			c.endSilent(broken, fmt.Errorf("%w; the last attempt to make it again: %w", why, err))
		}
		if !c.pause(min(wait, left)) {
			return
		}
	}
}

// attempt makes a new link and attaches it. It takes no longer than the connection may stay broken.
// It reports whether the host of the coordinator has answered.
func (r *redialer) attempt(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.conn.remaining(false))
	defer cancel()
	began := time.Now()
	d := net.Dialer{Timeout: probeTimeout}
	raw, err := d.DialContext(ctx, "tcp", r.conn.remote.String())
	if err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	l, received, err := r.resume(raw)
	if err == nil {
		err = r.conn.attach(l, received)
	}
	if err != nil {
		err = explainStall(raw, began, err)
		raw.Close()
	}
	return true, err
}

// resume performs the handshake for a further link. received is how many messages the coordinator
// has received.
func (r *redialer) resume(raw net.Conn) (l *link, received uint64, err error) {
	c := r.conn
	if err := limitHandshake(raw); err != nil {
		return nil, 0, err
	}
	g, err := greetCoordinator(raw, r.security, request{node: c.node, nodes: c.nodes, session: c.session}, r.security.encrypts())
	if err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	ours := c.received // no link exists, so it does not change
	c.mu.Unlock()
	l, err = newLink(g, false)
	if err != nil {
		return nil, 0, err
	}
	l.fresh = false
	if _, err := g.conn.Write(l.writer.encode(frame{kind: kindAck, body: encodeAck(ours)})); err != nil {
		return nil, 0, err
	}
	received, err = l.readFirstAck()
	return l, received, err
}

// awaiter is at the coordinator and waits for new links of another node.
type awaiter struct {
	conn  *Conn
	probe aliveProbe
	// wait is how long it waits for a new link from a node whose port it cannot reach.
	wait time.Duration
}

// newAwaiter returns the awaiter for a connection, and begins to find out whether the coordinator
// reaches the port of the other node.
func newAwaiter(c *Conn, alivePort int) *awaiter {
	a := &awaiter{c, newAliveProbe(c.remote, alivePort, c.banner), unreachableWait}
	go a.test()
	return a
}

// test finds out whether the coordinator reaches the port of the other node. It tries again, less
// and less often: a busy node may answer late, and a firewall may open.
func (a *awaiter) test() {
	if a.probe.addr == "" {
		return
	}
	ctx, cancel := a.conn.untilLost()
	defer cancel()
	for wait := firstRetry; !a.probe.reaches(ctx); wait = min(2*wait, lastReachRetry) {
		if !a.conn.pause(wait) {
			return
		}
	}
	close(a.conn.reachable)
}

// recover waits until the other node has made a new link, or has died, or the time is over.
func (a *awaiter) recover(broken uint64, why error) {
	c := a.conn
	ctx, cancel := c.untilLost()
	defer cancel()
	select {
	case <-c.reachable:
	default:
		a.waitUnreachable(broken, why)
		return
	}
	for wait := firstRetry; c.stillBroken(broken); wait = min(2*wait, lastRetry) {
		raw, err := a.probe.dial(ctx)
		switch {
		case err == nil:
			raw.Close()
		case refused(err):
			c.endGone(broken, ErrDied)
		}
		left := c.remaining(err == nil)
		if left == 0 {
			c.endSilent(broken, why)
		}
		if !c.pause(min(wait, left)) {
			return
		}
	}
}

// waitUnreachable is recover for a node whose port the coordinator does not reach.
func (a *awaiter) waitUnreachable(broken uint64, why error) {
	c := a.conn
	for c.stillBroken(broken) {
		left := min(c.remaining(false), c.remainingWait(a.wait))
		if left == 0 {
			c.endGone(broken, fmt.Errorf("the connection broke, and was not made again within %v: %w", a.wait, why))
		}
		if left == 0 || !c.pause(left) {
			return
		}
	}
}

// remainingWait returns how much is left of the time in which the other node must make another link.
func (c *Conn) remainingWait(limit time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.noteRunning(now)
	return max(0, limit-now.Sub(c.times.awaited))
}

// stillBroken reports whether no link was made since the connection broke for that time.
func (c *Conn) stillBroken(broken uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link == nil && c.broken == broken
}

// endBroken ends the connection for this reason, unless a link was made since it broke for that time.
func (c *Conn) endBroken(broken uint64, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil && c.broken == broken {
		c.end(why)
	}
}

// endGone is endBroken for a side that has ended the connection. why is the reason as far as it is known; gone may find a better
// one.
func (c *Conn) endGone(broken uint64, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil && c.broken == broken {
		c.end(c.gone(why, time.Now()))
	}
}

// gone returns why the other side has ended the connection. found is what this side has seen. Where long packets are lost, both
// sides give up after the time of a heartbeat, and the later one sees only that the other one has gone. So lost packets are the
// reason if nothing that this side has sent arrived, or if another link was in vain and the other side was silent. In the second
// case gone also sets lostSince. The caller must hold mu.
func (c *Conn) gone(found error, now time.Time) error {
	silent := now.Sub(c.times.heard)
	switch cause := c.flow.cause(); {
	case cause != nil && c.flow.again():
		return fmt.Errorf("%w: %w", errUnreached, cause)
	case c.inVain() && silent > c.heartbeat/4:
		c.times.lostSince = c.times.heard
		return c.silence(silent.Round(time.Second / 10))
	}
	return found
}

// endSilent is endBroken for a side that was silent too long. why is how the connection broke.
func (c *Conn) endSilent(broken uint64, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil && c.broken == broken {
		c.end(fmt.Errorf("%w; the connection broke: %w", c.silence(c.heartbeat), why))
	}
}
