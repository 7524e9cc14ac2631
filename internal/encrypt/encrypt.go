// Package encrypt runs TLS 1.3 over a connection whose two sides share a secret.
//
//	e, err := encrypt.New("ibrun-tcp/1")         // once per process: makes its certificate
//	conn, binding, err := e.Client(raw)          // the side that connects; the other calls Server
//	mac := key.MAC("proof", hello, nonce, binding)
//
// The certificates are made by each process for itself, and are not signed by an authority. So TLS alone proves nothing about
// the other side: Client and Server succeed with anyone. The binding makes the difference. It is a value that TLS derives for
// this session and that both of its ends know (the exporter of RFC 9266). Each side must send a MAC with the shared secret
// over the binding, and verify that of the other side, before it sends or believes anything else. An attacker in the middle
// that terminates TLS has two sessions, so the two sides compute different bindings, and neither accepts the MAC of the other.
// He cannot make a MAC himself because he does not know the secret.
//
// Only TLS 1.3 is spoken. There are no session tickets, so no session is resumed and no data is sent before the handshake. The
// keys are forgotten with the connection: a secret that becomes known later does not decrypt what was recorded.
package encrypt

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// BindingBytes is the length of a binding.
const BindingBytes = 32

// exporterLabel is the label of the channel binding "tls-exporter" of RFC 9266, which has no context value.
const exporterLabel = "EXPORTER-Channel-Binding"

// ErrHandshake means that no TLS session was agreed on.
var ErrHandshake = errors.New("TLS handshake")

// Encryptor makes the TLS sessions of one process for one protocol. Any goroutine may call its methods at any time.
type Encryptor struct{ config *tls.Config }

// New makes a certificate for this process. Both sides must name the same protocol.
func New(protocol string) (*Encryptor, error) {
	cert, err := newCertificate()
	if err != nil {
		return nil, fmt.Errorf("make a certificate for TLS: %w", err)
	}
	verify := func(s tls.ConnectionState) error {
		switch {
		case s.Version != tls.VersionTLS13:
			return fmt.Errorf("the session is not of TLS 1.3 but of %s", tls.VersionName(s.Version))
		case s.NegotiatedProtocol != protocol:
			return fmt.Errorf("the other side speaks %q, and this one %q", s.NegotiatedProtocol, protocol)
		case s.DidResume:
			return errors.New("the session was resumed")
		}
		return nil
	}
	return &Encryptor{&tls.Config{
		Certificates:                []tls.Certificate{cert},
		NextProtos:                  []string{protocol},
		MinVersion:                  tls.VersionTLS13,
		MaxVersion:                  tls.VersionTLS13,
		InsecureSkipVerify:          true, // the MAC over the binding authenticates, see the package comment
		VerifyConnection:            verify,
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true, // full records from the beginning: there is no page to show early
	}}, nil
}

// newCertificate returns a certificate that says nothing about the process or its node.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	// Clocks of nodes may differ, and no side checks the validity: the certificate is as old as its process.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// Client performs the handshake of the side that connected. The caller bounds it by a deadline of raw, which it owns also after
// an error.
func (e *Encryptor) Client(raw net.Conn) (conn *tls.Conn, binding []byte, err error) {
	return handshake(tls.Client(raw, e.config))
}

// Server performs the handshake of the side that accepted. The caller bounds it by a deadline of raw, which it owns also after an
// error.
func (e *Encryptor) Server(raw net.Conn) (conn *tls.Conn, binding []byte, err error) {
	return handshake(tls.Server(raw, e.config))
}

func handshake(conn *tls.Conn) (*tls.Conn, []byte, error) {
	if err := conn.Handshake(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	state := conn.ConnectionState()
	binding, err := state.ExportKeyingMaterial(exporterLabel, nil, BindingBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: export the channel binding: %w", ErrHandshake, err)
	}
	return conn, binding, nil
}
