package encrypt

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/waittest"
)

const testProtocol = "ibrun-test/1"

func newEncryptor(t *testing.T, protocol string) *Encryptor {
	t.Helper()
	e, err := New(protocol)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// session is one end of a TLS session, or why there is none.
type session struct {
	conn    *tls.Conn
	binding []byte
	err     error
}

// shake runs both handshakes over a loopback connection.
func shake(t *testing.T, client, server func(net.Conn) (*tls.Conn, []byte, error)) (c, s session) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	waittest.Bound(t, near)
	waittest.Bound(t, far)
	run := func(raw net.Conn, f func(net.Conn) (*tls.Conn, []byte, error)) (e session) {
		if e.conn, e.binding, e.err = f(raw); e.err != nil {
			raw.Close()
		}
		return e
	}
	served := make(chan session, 1)
	go func() { served <- run(far, server) }()
	c = run(near, client)
	return c, <-served
}

// TestBinding: both ends of a session have the same binding, two sessions have different ones, and bytes pass.
func TestBinding(t *testing.T) {
	client, server := newEncryptor(t, testProtocol), newEncryptor(t, testProtocol)
	var last []byte
	for range 2 {
		c, s := shake(t, client.Client, server.Server)
		if c.err != nil || s.err != nil {
			t.Fatal(c.err, s.err)
		}
		if len(c.binding) != BindingBytes || !bytes.Equal(c.binding, s.binding) || bytes.Equal(c.binding, last) {
			t.Errorf("bindings %x and %x, of the session before %x", c.binding, s.binding, last)
		}
		last = c.binding
		if state := c.conn.ConnectionState(); state.Version != tls.VersionTLS13 || state.DidResume {
			t.Errorf("%+v", state)
		}
		go io.WriteString(s.conn, "hello")
		b := make([]byte, 5)
		if _, err := io.ReadFull(c.conn, b); err != nil || string(b) != "hello" {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// TestMiddle: an attacker that terminates TLS with its own certificate has another binding with each side. Neither side can tell
// from TLS alone, so both handshakes succeed: callers must compare the bindings.
func TestMiddle(t *testing.T) {
	client, server, middle := newEncryptor(t, testProtocol), newEncryptor(t, testProtocol), newEncryptor(t, testProtocol)
	c, m1 := shake(t, client.Client, middle.Server)
	m2, s := shake(t, middle.Client, server.Server)
	for _, e := range []session{c, m1, m2, s} {
		if e.err != nil {
			t.Fatal(e.err)
		}
	}
	if bytes.Equal(c.binding, s.binding) {
		t.Error("client and server have the same binding, with somebody between them")
	}
}

// TestOtherSide: no session is agreed on with a side that speaks another protocol, an older TLS, or none.
func TestOtherSide(t *testing.T) {
	e := newEncryptor(t, testProtocol)
	other := newEncryptor(t, "ibrun-other/1")
	old := newEncryptor(t, testProtocol)
	old.config.MinVersion, old.config.MaxVersion, old.config.VerifyConnection = tls.VersionTLS12, tls.VersionTLS12, nil
	none := newEncryptor(t, testProtocol)
	none.config.NextProtos, none.config.VerifyConnection = nil, nil
	for name, x := range map[string]*Encryptor{"another protocol": other, "TLS 1.2": old, "no protocol": none} {
		if c, _ := shake(t, e.Client, x.Server); !errors.Is(c.err, ErrHandshake) {
			t.Errorf("%s as the server: %v", name, c.err)
		}
		if _, s := shake(t, x.Client, e.Server); !errors.Is(s.err, ErrHandshake) {
			t.Errorf("%s as the client: %v", name, s.err)
		}
	}
	hangUp := func(raw net.Conn) (*tls.Conn, []byte, error) { return nil, nil, raw.Close() }
	if c, _ := shake(t, e.Client, hangUp); !errors.Is(c.err, ErrHandshake) {
		t.Errorf("closed by the server: %v", c.err)
	}
	garbage := func(raw net.Conn) (*tls.Conn, []byte, error) {
		io.WriteString(raw, strings.Repeat("garbage", 100))
		return nil, nil, raw.Close()
	}
	if _, s := shake(t, garbage, e.Server); !errors.Is(s.err, ErrHandshake) {
		t.Errorf("garbage from the client: %v", s.err)
	}
}

// TestNoTickets: a client that keeps sessions gets none to resume, and one that the server resumes is refused.
func TestNoTickets(t *testing.T) {
	client, server := newEncryptor(t, testProtocol), newEncryptor(t, testProtocol)
	client.config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	client.config.ServerName = "node"
	for range 2 {
		c, s := shake(t, client.Client, server.Server)
		if c.err != nil || s.err != nil {
			t.Fatal(c.err, s.err)
		}
		go s.conn.Write([]byte("x"))
		if _, err := io.ReadFull(c.conn, make([]byte, 1)); err != nil { // a ticket would come before
			t.Fatal(err)
		}
		if c.conn.ConnectionState().DidResume {
			t.Error("a session was resumed")
		}
	}
	if err := client.config.VerifyConnection(tls.ConnectionState{Version: tls.VersionTLS13, NegotiatedProtocol: testProtocol,
		DidResume: true}); err == nil {
		t.Error("a resumed session was accepted")
	}
}

// TestCertificate: the certificate names nothing, and each process has another one.
func TestCertificate(t *testing.T) {
	var keys [2][]byte
	for i := range keys {
		der := newEncryptor(t, testProtocol).config.Certificates[0].Certificate[0]
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		if c.Subject.String() != "" || len(c.DNSNames)+len(c.IPAddresses)+len(c.URIs)+len(c.EmailAddresses) != 0 {
			t.Errorf("the certificate names %v %v %v", c.Subject, c.DNSNames, c.IPAddresses)
		}
		keys[i] = c.RawSubjectPublicKeyInfo
	}
	if bytes.Equal(keys[0], keys[1]) {
		t.Error("two certificates have the same key")
	}
}
