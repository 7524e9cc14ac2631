package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// maxPending is the maximum number of connections in their handshake. If one more arrives, the oldest is closed.
const maxPending = 64

// Listener accepts the connections of the other nodes. Its methods may be called by any goroutine.
type Listener struct {
	listener net.Listener
	security Security
	// heartbeat is how long a side of its connections may be silent.
	heartbeat time.Duration
	accepted  chan *Conn
	mismatch  chan error // holds the error of the first node that is ours and has made another choice of encryption
	closed    chan struct{}

	mu          sync.Mutex
	pending     []net.Conn // connections in their handshake, the oldest first
	lastRefusal string     // why the last node was refused
}

// Listen starts to listen at addr, host:port. A side of a connection is lost when it has been silent for heartbeat.
func Listen(addr string, s Security, heartbeat time.Duration) (*Listener, error) {
	nl, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the other nodes: %w", err)
	}
	l := &Listener{listener: nl, security: s, heartbeat: heartbeat,
		accepted: make(chan *Conn), mismatch: make(chan error, 1), closed: make(chan struct{})}
	go l.acceptLoop()
	return l, nil
}

// Addr returns the address at which it listens.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Accept returns the next connection whose other side has proven that it has the secret. The error is [ErrEncrypt] if that
// side has made another choice of encryption.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case err := <-l.mismatch:
		return nil, err
	case <-l.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// LastRefusal returns why the last node that tried to connect was refused, or "". Connections that do not speak the protocol do
// not count.
func (l *Listener) LastRefusal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastRefusal
}

// Close stops listening and closes every connection that is in its handshake. Connections that Accept returned stay open. Close
// must be called once only.
func (l *Listener) Close() error {
	close(l.closed)
	err := l.listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, raw := range l.pending {
		raw.Close()
	}
	return err
}

func (l *Listener) acceptLoop() {
	for {
		raw, err := l.listener.Accept()
		switch {
		case err == nil:
			l.addPending(raw)
			go l.handshake(raw)
		case errors.Is(err, net.ErrClosed):
			return
		default: // out of file descriptors, or the client has already closed the connection
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (l *Listener) addPending(raw net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, raw)
	if len(l.pending) > maxPending {
		l.pending[0].Close() // its handshake fails
		l.pending = l.pending[1:]
	}
}

func (l *Listener) removePending(raw net.Conn, refusal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = slices.DeleteFunc(l.pending, func(r net.Conn) bool { return r == raw })
	if refusal != "" {
		l.lastRefusal = refusal
	}
}

// handshake authenticates a connection and passes it to Accept.
func (l *Listener) handshake(raw net.Conn) {
	c, err := serverHandshake(raw, l.security, l.heartbeat)
	refusal := ""
	if errors.Is(err, ErrSecret) || errors.Is(err, ErrVersion) {
		refusal = fmt.Sprintf("%v was refused: %v", raw.RemoteAddr(), err)
	}
	l.removePending(raw, refusal)
	if err != nil {
		raw.Close()
		l.reportMismatch(err)
		return
	}
	select {
	case l.accepted <- c:
	case <-l.closed:
		c.Close()
	}
}

// reportMismatch passes an ErrEncrypt to Accept.
func (l *Listener) reportMismatch(err error) {
	if !errors.Is(err, ErrEncrypt) {
		return
	}
	select {
	case l.mismatch <- err:
	default: // one was reported before
	}
}
