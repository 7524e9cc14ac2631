package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Dial is [DialNotify] without notifications.
func Dial(ctx context.Context, addr string, s Security, node, nodes int) (*Conn, error) {
	return DialNotify(ctx, addr, s, node, nodes, func(error) {})
}

// DialNotify connects a node to the coordinator at addr, host:port. The coordinator may not listen
// yet, and its name may not be known yet, so it tries again until it succeeds or ctx ends. After
// each attempt that may succeed later it calls failed with the reason. It fails immediately if
// another program listens there, or an ibrun with another secret, version or choice of encryption.
func DialNotify(ctx context.Context, addr string, s Security, node, nodes int, failed func(error)) (*Conn, error) {
	var last error
	var backoff Backoff
	for {
		c, err := dialOnce(ctx, addr, s, node, nodes, s.encrypts())
		if errors.Is(err, errCoordinatorPlain) {
			c, err = dialOnce(ctx, addr, s, node, nodes, false)
		}
		if err == nil {
			return c, nil
		}
		if errors.Is(err, ErrSecret) || errors.Is(err, ErrNotIbrun) || errors.Is(err, ErrVersion) ||
			errors.Is(err, ErrEncrypt) || errors.Is(err, errChanged) {
			return nil, fmt.Errorf("node 0 at %s: %w", addr, err)
		}
		if timeout := net.Error(nil); last == nil || ctx.Err() == nil && !(errors.As(err, &timeout) && timeout.Timeout()) {
			last = err // a timeout would hide the reason of an earlier attempt
		}
		failed(last)
		if !backoff.Wait(ctx) {
			return nil, fmt.Errorf("%w (last attempt: %v)", context.Cause(ctx), last)
		}
	}
}

func dialOnce(ctx context.Context, addr string, s Security, node, nodes int, encrypted bool) (*Conn, error) {
	began := time.Now()
	d := net.Dialer{Timeout: handshakeTimeout}
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	alive, port := listenAlive(raw)
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	var c *Conn
	var l *link
	if err = limitHandshake(raw); err == nil {
		c, l, err = join(raw, s, request{node: node, nodes: nodes, alivePort: port}, encrypted)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		c.recover, c.onEnd = (&redialer{c, s}).recover, func() { closeAlive(alive) }
		err = c.attach(l, 0)
	}
	if err != nil {
		err = explainStall(raw, began, err)
		raw.Close()
		closeAlive(alive)
		return nil, err
	}
	if alive != nil {
		go serveAlive(alive, c.banner)
	}
	return c, nil
}

// join performs the handshake for a new connection. The caller must set recover and onEnd.
func join(raw net.Conn, s Security, r request, encrypted bool) (*Conn, *link, error) {
	g, err := greetCoordinator(raw, s, r, encrypted)
	if err != nil {
		return nil, nil, err
	}
	c, l, err := newConn(g, false)
	if err != nil {
		return nil, nil, err
	}
	_, err = l.readFirstAck() // now the coordinator knows the session
	return c, l, err
}
