package control

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/encrypt"
)

// tlsProtocol names this protocol within TLS.
const tlsProtocol = "ibrun-control/1"

// tlsHandshakeRecord is the first byte that a TLS client sends. The magic of this protocol begins with another one.
const tlsHandshakeRecord = 22

// Security is what a node needs to prove itself to the others, and to encrypt.
type Security struct {
	auth.Secret
	encryptor *encrypt.Encryptor // nil: connections are not encrypted
}

// NewSecurity returns the security of a node with that secret. All nodes must encrypt, or none.
func NewSecurity(s auth.Secret, encrypted bool) (Security, error) {
	if !encrypted {
		return Security{Secret: s}, nil
	}
	e, err := encrypt.New(tlsProtocol)
	return Security{s, e}, err
}

// encrypts reports whether this node demands encryption.
func (s Security) encrypts() bool { return s.encryptor != nil }

var (
	// ErrEncrypt means that one of the two nodes demands encryption and the other does not.
	ErrEncrypt = errors.New("give --encrypt to all nodes, or to none")
	// errChanged means that both nodes demand encryption, and that the handshake was all the same in the clear.
	errChanged = errors.New("both nodes have --encrypt, and another host between them prevents encryption")
	// errCoordinatorPlain means that the coordinator has answered TLS without TLS.
	errCoordinatorPlain = errors.New("it does not encrypt")
)

// checkModes returns an error unless both sides want what they have. It is called after the MACs were verified, which cover what
// both sides have said.
func checkModes(this, other, encrypted bool) error {
	switch {
	case this && !other:
		return fmt.Errorf("it was started without --encrypt, and this node with it: %w", ErrEncrypt)
	case other && !this:
		return fmt.Errorf("it was started with --encrypt, and this node without it: %w", ErrEncrypt)
	case this && !encrypted:
		return errChanged
	}
	return nil
}

// otherSecret returns the error for a MAC that does not verify.
func otherSecret(encrypted bool) error {
	if encrypted {
		return fmt.Errorf("%w, or another host between the nodes terminates TLS", ErrSecret)
	}
	return ErrSecret
}

// openServer begins a handshake at the coordinator. It returns the connection to read the request
// from, encrypted if the client has begun with TLS, and the binding then.
func (s Security) openServer(raw net.Conn) (conn net.Conn, binding []byte, err error) {
	first := make([]byte, 1)
	if _, err := io.ReadFull(raw, first); err != nil {
		return nil, nil, fmt.Errorf("read its connection request: %w", err)
	}
	conn = &unreadConn{raw, first}
	switch {
	case first[0] != tlsHandshakeRecord:
		return conn, nil, nil
	case !s.encrypts():
		return nil, nil, refuseTLS(raw)
	}
	t, binding, err := s.encryptor.Server(conn)
	return t, binding, err
}

// refuseTLS answers a TLS client that this node does not encrypt. A node then connects again and authenticates itself in the
// clear, so that both sides can report why they do not belong together.
func refuseTLS(raw net.Conn) error {
	_, err := io.WriteString(raw, magicPlain)
	if half, ok := raw.(interface{ CloseWrite() error }); ok && err == nil && half.CloseWrite() == nil {
		// Closing with unread input would reset the connection, and the client might not read the answer.
		_ = raw.SetReadDeadline(time.Now().Add(closeTimeout))
		_, _ = io.CopyN(io.Discard, raw, 1<<16)
	}
	return errors.Join(errors.New("it begins with TLS, and this node was started without --encrypt"), err)
}

// openClient begins a handshake on another node, with TLS. It returns errCoordinatorPlain if the
// coordinator has answered in the clear.
func (s Security) openClient(raw net.Conn) (conn net.Conn, binding []byte, err error) {
	t, binding, err := s.encryptor.Client(raw)
	var answer tls.RecordHeaderError
	if errors.As(err, &answer) {
		if string(answer.RecordHeader[:]) == magicPlain[:len(answer.RecordHeader)] {
			return nil, nil, errCoordinatorPlain
		}
		return nil, nil, ErrNotIbrun
	}
	if err != nil {
		return nil, nil, err
	}
	return t, binding, nil
}

// unreadConn is a connection of which some bytes have been read already.
type unreadConn struct {
	net.Conn
	read []byte // to be read once more
}

// Read reads the bytes that were read already, and then those that follow.
func (c *unreadConn) Read(b []byte) (int, error) {
	if len(c.read) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.read)
	c.read = c.read[n:]
	return n, nil
}

// NetConn returns the connection itself.
func (c *unreadConn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the direction to the other side.
func (c *unreadConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// innermost returns the connection that others wrap.
func innermost(c net.Conn) net.Conn {
	for {
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = w.NetConn()
	}
}
