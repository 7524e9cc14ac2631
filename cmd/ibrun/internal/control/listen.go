package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/ibrun/ibrun/internal/auth"
)

// maxStrangers is how many connections may be in their handshake. The oldest makes room for the next.
const maxStrangers = 64

// Listener is where the other nodes come to. All methods may be called by any goroutine.
type Listener struct {
	net    net.Listener
	secret auth.Secret
	joined chan *Conn
	closed chan struct{}

	mu        sync.Mutex
	strangers []net.Conn // in their handshake, the oldest first
	refused   string     // why the last of those that claimed to be nodes was not let in
}

// Listen begins to listen at addr, host:port.
func Listen(addr string, s auth.Secret) (*Listener, error) {
	nl, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the other nodes: %w", err)
	}
	l := &Listener{net: nl, secret: s, joined: make(chan *Conn), closed: make(chan struct{})}
	go l.run()
	return l, nil
}

// Addr is the address that it listens at.
func (l *Listener) Addr() net.Addr { return l.net.Addr() }

// Accept returns the next connection whose other side has proven that it has the secret.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case c := <-l.joined:
		return c, nil
	case <-l.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Refused tells why the last one that spoke as a node was not let in, or is empty.
func (l *Listener) Refused() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// Close ends listening, and every handshake that is under way. Connections that Accept returned stay. It is called once.
func (l *Listener) Close() error {
	close(l.closed)
	err := l.net.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, raw := range l.strangers {
		raw.Close()
	}
	return err
}

func (l *Listener) run() {
	for {
		raw, err := l.net.Accept()
		switch {
		case err == nil:
			l.enter(raw)
			go l.shake(raw)
		case errors.Is(err, net.ErrClosed):
			return
		default: // no descriptors are left, or the stranger has gone already
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (l *Listener) enter(raw net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.strangers = append(l.strangers, raw)
	if len(l.strangers) > maxStrangers {
		l.strangers[0].Close() // which ends its shake
		l.strangers = l.strangers[1:]
	}
}

func (l *Listener) leave(raw net.Conn, refused string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.strangers = slices.DeleteFunc(l.strangers, func(r net.Conn) bool { return r == raw })
	if refused != "" {
		l.refused = refused
	}
}

// shake shakes hands with one that came.
func (l *Listener) shake(raw net.Conn) {
	c, err := admit(raw, l.secret)
	refused := ""
	if errors.Is(err, ErrSecret) || errors.Is(err, ErrVersion) {
		refused = fmt.Sprintf("%v tried: %v", raw.RemoteAddr(), err)
	}
	l.leave(raw, refused)
	if err != nil {
		raw.Close()
		return
	}
	select {
	case l.joined <- c:
	case <-l.closed:
		c.Close()
	}
}
