package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ibrun/ibrun/internal/auth"
)

// retryEvery is how long a node waits before it tries again to reach node 0.
const retryEvery = 100 * time.Millisecond

// Dial connects a node to node 0 at addr, host:port, and tries until it succeeds or ctx ends: node 0 may not be there yet.
// That something else listens there, or has another secret, is final.
func Dial(ctx context.Context, addr string, s auth.Secret, node, nodes int) (*Conn, error) {
	var last error
	for {
		c, err := dialOnce(ctx, addr, s, node, nodes)
		if err == nil {
			return c, nil
		}
		if errors.Is(err, ErrSecret) || errors.Is(err, ErrStranger) || errors.Is(err, ErrVersion) {
			return nil, fmt.Errorf("node 0 at %s: %w", addr, err)
		}
		if late := net.Error(nil); last == nil || ctx.Err() == nil && !(errors.As(err, &late) && late.Timeout()) {
			last = err // and not that the time is over
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w (the last try: %v)", context.Cause(ctx), last)
		case <-time.After(retryEvery):
		}
	}
}

func dialOnce(ctx context.Context, addr string, s auth.Secret, node, nodes int) (*Conn, error) {
	d := net.Dialer{Timeout: handshakeTime}
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	c, err := greet(raw, s, node, nodes)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}
