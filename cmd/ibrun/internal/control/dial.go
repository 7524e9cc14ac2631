package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// retryInterval is the time between two attempts to connect to node 0.
const retryInterval = 100 * time.Millisecond

// Dial connects a node to node 0 at addr, host:port. Node 0 may not listen yet, so Dial tries again until it succeeds or ctx
// ends. It fails immediately if another program listens there, or an ibrun with another secret, version or
// choice of encryption.
func Dial(ctx context.Context, addr string, s Security, node, nodes int) (*Conn, error) {
	var last error
	for {
		c, err := dialOnce(ctx, addr, s, node, nodes, s.encrypts())
		if errors.Is(err, errNode0Plain) {
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
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (last attempt: %v)", context.Cause(ctx), last)
		case <-time.After(retryInterval):
		}
	}
}

func dialOnce(ctx context.Context, addr string, s Security, node, nodes int, encrypted bool) (*Conn, error) {
	d := net.Dialer{Timeout: handshakeTimeout}
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	c, err := clientHandshake(raw, s, node, nodes, encrypted)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}
