package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ibrun/ibrun/internal/admission"
)

const (
	// maxPending is the maximum number of connections in their handshake. See package admission for those beyond it.
	maxPending = 1024
	// minPendingAge is how long a connection may take for its handshake at least.
	minPendingAge = 500 * time.Millisecond
)

// Listener accepts the connections of the other nodes, and the further links of these connections. Its methods may be called by
// any goroutine.
type Listener struct {
	listener net.Listener
	security Security
	// heartbeat is how long a side of its connections may be silent.
	heartbeat time.Duration
	accepted  chan *Conn
	mismatch  chan error // holds the error of the first node that is ours and has made another choice of encryption
	closing   sync.Once
	closed    chan struct{}

	mu          sync.Mutex
	pending     admission.Waiting[net.Conn] // connections that have not proved themselves
	sessions    map[sessionID]*Conn         // connections that have not ended
	lastRefusal string                      // why the last node was refused
	refusals    chan Refusal
}

// Refusal is a connection of another ibrun that was refused.
type Refusal struct {
	Addr net.Addr
	Err  error // wraps [ErrSecret] or [ErrVersion]
}

// String names the address and the reason.
func (r Refusal) String() string { return fmt.Sprintf("%v was refused: %v", r.Addr, r.Err) }

// maxRefusals is how many refusals are kept until they are received.
const maxRefusals = 16

// Listen starts to listen at addr, host:port. A side of a connection is lost when it has been silent for heartbeat.
func Listen(addr string, s Security, heartbeat time.Duration) (*Listener, error) {
	nl, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the other nodes: %w", err)
	}
	l := &Listener{listener: nl, security: s, heartbeat: heartbeat,
		accepted: make(chan *Conn), mismatch: make(chan error, 1), closed: make(chan struct{}),
		pending:  admission.Waiting[net.Conn]{Limit: admission.Limit(maxPending), MinAge: minPendingAge},
		sessions: map[sessionID]*Conn{}, refusals: make(chan Refusal, maxRefusals)}
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

// Refusals receives every node that is refused, as in LastRefusal. It drops refusals that are not received in time: nothing is
// known about the processes that cause them.
func (l *Listener) Refusals() <-chan Refusal { return l.refusals }

// Close stops listening and closes every connection that is in its handshake. Connections that Accept returned stay open, but
// cannot be made again if they break. Further calls do nothing.
func (l *Listener) Close() (err error) {
	l.closing.Do(func() { err = l.close() })
	return err
}

func (l *Listener) close() error {
	close(l.closed)
	err := l.listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, raw := range l.pending.All() {
		raw.Close()
	}
	return err
}

func (l *Listener) acceptLoop() {
	for {
		raw, err := l.listener.Accept()
		switch {
		case err == nil:
			if l.admit(raw) {
				go l.handshake(raw)
			}
		case errors.Is(err, net.ErrClosed):
			return
		default: // out of file descriptors, or the client has already closed the connection
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// admit makes room for a connection that has proved nothing yet. It reports false if there is none: the connection is closed.
func (l *Listener) admit(raw net.Conn) bool {
	l.mu.Lock()
	drop, full := l.pending.Add(raw, admission.AddrOf(raw), time.Now())
	l.mu.Unlock()
	if full {
		drop.Close() // its handshake fails
	}
	return !full || drop != raw
}

// prove takes a connection out of those that may be closed when there are too many. It reports false if it was closed already.
func (l *Listener) prove(raw net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending.Remove(raw)
}

// refuse closes a connection that has not proved itself.
func (l *Listener) refuse(raw net.Conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.Remove(raw)
	raw.Close()
	if errors.Is(err, ErrSecret) || errors.Is(err, ErrVersion) {
		r := Refusal{raw.RemoteAddr(), err}
		l.lastRefusal = r.String()
		select {
		case l.refusals <- r:
		default: // no goroutine reads, or strangers connect faster than that
		}
	}
	if errors.Is(err, ErrEncrypt) {
		select {
		case l.mismatch <- err:
		default: // one was reported before
		}
	}
}

// handshake authenticates a connection. It is a new Conn, which is passed to Accept, or another link of one.
func (l *Listener) handshake(raw net.Conn) {
	var g *greeting
	err := limitHandshake(raw)
	if err == nil {
		g, err = greetNode(raw, l.security, l.heartbeat)
	}
	if err != nil {
		l.refuse(raw, err)
		return
	}
	if !l.prove(raw) {
		return
	}
	if g.session == (sessionID{}) {
		err = l.addConn(g)
	} else {
		err = l.addLink(g)
	}
	if err != nil {
		raw.Close()
	}
}

// addConn passes a new connection to Accept.
func (l *Listener) addConn(g *greeting) error {
	c, first, err := newConn(g, true)
	if err != nil {
		return err
	}
	c.recover = newAwaiter(c, g.alivePort).recover
	c.onEnd = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.sessions, c.session)
	}
	l.mu.Lock()
	l.sessions[c.session] = c // before the first frame, after which the other side counts on it
	l.mu.Unlock()
	if err := c.attach(first, 0); err != nil {
		c.Close()
		return err
	}
	select {
	case l.accepted <- c:
	case <-l.closed:
		c.Close()
	}
	return nil
}

// addLink makes a connection another link of the Conn that it names.
func (l *Listener) addLink(g *greeting) error {
	l.mu.Lock()
	c := l.sessions[g.session]
	l.mu.Unlock()
	next, err := newLink(g, true)
	if err != nil {
		return err
	}
	received, err := next.readFirstAck()
	if err != nil {
		return err
	}
	if c != nil && c.node == g.node && c.attach(next, received) == nil {
		return nil
	}
	if _, err := g.conn.Write(next.writer.encode(frame{kind: kindClose})); err != nil { // it has been given up
		return err
	}
	next.closeWrite()
	return nil
}
