package control

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/ibrun/ibrun/internal/auth"
)

// magic begins what both sides say first; the version follows.
const (
	magic   = "ibrun/n"
	version = 1
)

// Lengths in bytes.
const (
	nonceLen     = 32
	proofLen     = auth.MACBytes
	greetingLen  = len(magic) + 1 + 4 + 4 + nonceLen
	challengeLen = len(magic) + 1 + nonceLen + proofLen
)

// The roles that proofs are made for, so that neither side's serves as the other's.
const (
	roleZero = "node 0"
	roleNode = "node"
)

// handshakeTime bounds a handshake, which is one round trip.
const handshakeTime = 5 * time.Second

var (
	// ErrSecret says that the other side does not have the same secret.
	ErrSecret = errors.New("it has another secret (--secret-file)")
	// ErrStranger says that the other side is no ibrun.
	ErrStranger = errors.New("it is not ibrun")
	// ErrVersion says that the other side is an ibrun that speaks another version of this protocol.
	ErrVersion = errors.New("it is another version of ibrun")
)

// greeting is what a node says first.
type greeting struct {
	node, nodes int
	nonce       [nonceLen]byte
}

func (g *greeting) encode() []byte {
	b := append([]byte(magic), version)
	b = binary.BigEndian.AppendUint32(b, uint32(g.node))
	b = binary.BigEndian.AppendUint32(b, uint32(g.nodes))
	return append(b, g.nonce[:]...)
}

// decodeGreeting takes a greeting, all of it.
func decodeGreeting(b []byte) (g greeting, err error) {
	rest, err := cutMagic(b)
	if err != nil {
		return g, err
	}
	if len(b) != greetingLen {
		return g, fmt.Errorf("%w: a greeting of %d bytes", ErrStranger, len(b))
	}
	g.node, g.nodes = int(binary.BigEndian.Uint32(rest)), int(binary.BigEndian.Uint32(rest[4:]))
	copy(g.nonce[:], rest[8:])
	if g.node < 1 || g.node >= g.nodes {
		return g, fmt.Errorf("it says it is node %d/%d", g.node, g.nodes)
	}
	return g, nil
}

// decodeChallenge takes node 0's answer apart.
func decodeChallenge(b []byte) (nonce, proof []byte, err error) {
	rest, err := cutMagic(b)
	if err != nil {
		return nil, nil, err
	}
	if len(b) != challengeLen {
		return nil, nil, fmt.Errorf("%w: a challenge of %d bytes", ErrStranger, len(b))
	}
	return rest[:nonceLen], rest[nonceLen:], nil
}

// cutMagic takes magic and version off.
func cutMagic(b []byte) ([]byte, error) {
	if len(b) <= len(magic) || string(b[:len(magic)]) != magic {
		return nil, ErrStranger
	}
	if v := b[len(magic)]; v != version {
		return nil, fmt.Errorf("%w: it speaks version %d of the protocol between nodes, this one %d", ErrVersion, v, version)
	}
	return b[len(magic)+1:], nil
}

// admit is the handshake on node 0's side.
func admit(raw net.Conn, s auth.Secret) (*Conn, error) {
	if err := raw.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	hello := make([]byte, greetingLen)
	if _, err := io.ReadFull(raw, hello); err != nil {
		return nil, fmt.Errorf("read its greeting: %w", err)
	}
	g, err := decodeGreeting(hello)
	if err != nil && !errors.Is(err, ErrVersion) {
		return nil, err
	}
	said := append([]byte(magic), version)
	nonce := make([]byte, nonceLen)
	rand.Read(nonce)
	said = append(said, nonce...)
	transcript := s.Transcript(hello, said)
	if _, errWrite := raw.Write(append(said, transcript.MAC(roleZero)...)); err != nil || errWrite != nil {
		return nil, errors.Join(err, errWrite)
	}
	proof := make([]byte, proofLen)
	if _, err := io.ReadFull(raw, proof); err != nil {
		return nil, fmt.Errorf("read the proof of node %d: %w", g.node, err)
	}
	if !transcript.Verify(proof, roleNode) {
		return nil, fmt.Errorf("node %d: %w", g.node, ErrSecret)
	}
	return newConn(raw, transcript, g.node, g.nodes, true)
}

// greet is the handshake on the other side.
func greet(raw net.Conn, s auth.Secret, node, nodes int) (*Conn, error) {
	if err := raw.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	g := greeting{node: node, nodes: nodes}
	rand.Read(g.nonce[:])
	hello := g.encode()
	if _, err := raw.Write(hello); err != nil {
		return nil, err
	}
	answer := make([]byte, challengeLen)
	n, err := io.ReadFull(raw, answer)
	if n > len(magic) {
		if _, errMagic := cutMagic(answer[:n]); errMagic != nil {
			return nil, errMagic
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read its answer: %w", err)
	}
	_, proof, err := decodeChallenge(answer)
	if err != nil {
		return nil, err
	}
	transcript := s.Transcript(hello, answer[:challengeLen-proofLen])
	right := transcript.Verify(proof, roleZero)
	// The proof is sent in any case, so that node 0 can tell its user why this node does not come.
	if _, err := raw.Write(transcript.MAC(roleNode)); err != nil && right {
		return nil, err
	}
	if !right {
		return nil, ErrSecret
	}
	return newConn(raw, transcript, node, nodes, false)
}
