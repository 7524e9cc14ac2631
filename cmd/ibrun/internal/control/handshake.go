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
	"github.com/ibrun/ibrun/internal/tunables"
)

// A magic begins the first message of each side. It says whether that side demands encryption. The version follows it.
const (
	magicPlain   = "ibrun/n"
	magicEncrypt = "ibrun/e"
	version      = 3
)

// Lengths in bytes.
const (
	nonceLen     = 32
	proofLen     = auth.MACBytes
	requestLen   = len(magicPlain) + 1 + 4 + 4 + 2 + sessionLen + nonceLen
	challengeLen = len(magicPlain) + 1 + 4 + nonceLen + proofLen
)

// The labels of the proofs. They differ, so that the proof of one side is not valid for the other.
const (
	roleCoordinator = "node 0"
	roleNode        = "node"
)

// handshakeTimeout bounds a handshake, which takes two and a half round trips.
const handshakeTimeout = 5 * time.Second

var (
	// ErrSecret means that the other side does not have the same secret.
	ErrSecret = errors.New("it has a different secret (--secret-file)")
	// ErrNotIbrun means that the other side does not speak this protocol.
	ErrNotIbrun = errors.New("it is not ibrun")
	// ErrVersion means that the other side speaks another version of this protocol.
	ErrVersion = errors.New("it is another version of ibrun")
)

const sessionLen = 16

// sessionID identifies a [Conn] over all its links. It follows from the first handshake. Zero: no connection exists yet.
type sessionID [sessionLen]byte

// request is the first message, from a node to the coordinator.
type request struct {
	encrypt     bool // the node demands encryption
	node, nodes int
	alivePort   int       // see listenAlive; 0: none
	session     sessionID // the connection that needs another link; zero: a new one
	nonce       [nonceLen]byte
}

func (r *request) encode() []byte {
	b := appendMagic(nil, r.encrypt)
	b = binary.BigEndian.AppendUint32(b, uint32(r.node))
	b = binary.BigEndian.AppendUint32(b, uint32(r.nodes))
	b = binary.BigEndian.AppendUint16(b, uint16(r.alivePort))
	b = append(b, r.session[:]...)
	return append(b, r.nonce[:]...)
}

// decodeRequest decodes a complete request.
func decodeRequest(b []byte) (r request, err error) {
	rest, encrypt, err := cutMagic(b)
	if err != nil {
		return r, err
	}
	r.encrypt = encrypt
	if len(b) != requestLen {
		return r, fmt.Errorf("%w: a request of %d bytes", ErrNotIbrun, len(b))
	}
	r.node, r.nodes = int(binary.BigEndian.Uint32(rest)), int(binary.BigEndian.Uint32(rest[4:]))
	r.alivePort = int(binary.BigEndian.Uint16(rest[8:]))
	copy(r.session[:], rest[10:])
	copy(r.nonce[:], rest[10+sessionLen:])
	if r.node < 1 || r.node >= r.nodes {
		return r, fmt.Errorf("it claims to be node %d/%d", r.node, r.nodes)
	}
	return r, nil
}

// encodeChallenge returns the answer of the coordinator without its proof. The duration is rounded
// to milliseconds.
func encodeChallenge(encrypt bool, heartbeat time.Duration) []byte {
	b := appendMagic(nil, encrypt)
	b = binary.BigEndian.AppendUint32(b, uint32(heartbeat.Milliseconds()))
	nonce := make([]byte, nonceLen)
	rand.Read(nonce)
	return append(b, nonce...)
}

// decodeChallenge decodes the answer of the coordinator: whether it demands encryption, how long a
// side may be silent, and the proof.
func decodeChallenge(b []byte) (encrypt bool, heartbeat time.Duration, proof []byte, err error) {
	rest, encrypt, err := cutMagic(b)
	if err != nil {
		return false, 0, nil, err
	}
	if len(b) != challengeLen {
		return false, 0, nil, fmt.Errorf("%w: a challenge of %d bytes", ErrNotIbrun, len(b))
	}
	heartbeat = time.Duration(binary.BigEndian.Uint32(rest)) * time.Millisecond
	if err := tunables.CheckHeartbeat(heartbeat); err != nil {
		return false, 0, nil, fmt.Errorf("%w: heartbeat of %v: %w", ErrNotIbrun, heartbeat, err)
	}
	return encrypt, heartbeat, rest[4+nonceLen:], nil
}

// appendMagic appends magic and version to b.
func appendMagic(b []byte, encrypt bool) []byte {
	if encrypt {
		return append(append(b, magicEncrypt...), version)
	}
	return append(append(b, magicPlain...), version)
}

// cutMagic returns b without magic and version, after checking them, and whether the magic demands encryption.
func cutMagic(b []byte) (rest []byte, encrypt bool, err error) {
	const n = len(magicPlain)
	if len(b) <= n || string(b[:n]) != magicPlain && string(b[:n]) != magicEncrypt {
		return nil, false, ErrNotIbrun
	}
	if v := b[n]; v != version {
		return nil, false, fmt.Errorf("%w: it speaks version %d of the protocol between nodes, this ibrun version %d",
			ErrVersion, v, version)
	}
	return b[n+1:], string(b[:n]) == magicEncrypt, nil
}

// greeting is what both sides know after they have proved to each other that they have the secret.
type greeting struct {
	request
	conn       net.Conn // encrypted if both sides demand that
	heartbeat  time.Duration
	transcript *auth.Transcript
}

// limitHandshake bounds how long a handshake over TCP takes: the other side may be a stranger, or unreachable.
func limitHandshake(raw net.Conn) error { return raw.SetDeadline(time.Now().Add(handshakeTimeout)) }

// greetNode performs the handshake at the coordinator. The caller limits its time.
func greetNode(raw net.Conn, s Security, heartbeat time.Duration) (*greeting, error) {
	conn, binding, err := s.openServer(raw)
	if err != nil {
		return nil, err
	}
	req := make([]byte, requestLen)
	if _, err := io.ReadFull(conn, req); err != nil {
		return nil, fmt.Errorf("read its connection request: %w", err)
	}
	r, err := decodeRequest(req)
	if err != nil && !errors.Is(err, ErrVersion) {
		return nil, err
	}
	challenge := encodeChallenge(s.encrypts(), heartbeat)
	transcript := s.Transcript(req, challenge, binding)
	if _, errWrite := conn.Write(append(challenge, transcript.MAC(roleCoordinator)...)); err != nil || errWrite != nil {
		return nil, errors.Join(err, errWrite)
	}
	proof := make([]byte, proofLen)
	if _, err := io.ReadFull(conn, proof); err != nil {
		return nil, fmt.Errorf("read the proof of node %d: %w", r.node, err)
	}
	if !transcript.Verify(proof, roleNode) {
		return nil, fmt.Errorf("node %d: %w", r.node, otherSecret(binding != nil))
	}
	if err := checkModes(s.encrypts(), r.encrypt, binding != nil); err != nil {
		return nil, fmt.Errorf("node %d at %v: %w", r.node, raw.RemoteAddr(), err)
	}
	return &greeting{r, conn, heartbeat, transcript}, nil
}

// greetCoordinator performs the handshake on another node. If encrypted is false it happens in the
// clear, also if s demands encryption. It fails in that case with the reason. The caller limits its
// time.
func greetCoordinator(raw net.Conn, s Security, r request, encrypted bool) (g *greeting, err error) {
	conn, binding := raw, []byte(nil)
	if encrypted {
		if conn, binding, err = s.openClient(raw); err != nil {
			return nil, err
		}
	}
	r.encrypt = s.encrypts()
	rand.Read(r.nonce[:])
	req := r.encode()
	if _, err := conn.Write(req); err != nil {
		return nil, err
	}
	answer := make([]byte, challengeLen)
	n, err := io.ReadFull(conn, answer)
	if n > len(magicPlain) {
		if _, _, errMagic := cutMagic(answer[:n]); errMagic != nil {
			return nil, errMagic
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read its answer: %w", err)
	}
	encrypt, heartbeat, proof, err := decodeChallenge(answer)
	if err != nil {
		return nil, err
	}
	transcript := s.Transcript(req, answer[:challengeLen-proofLen], binding)
	sameSecret := transcript.Verify(proof, roleCoordinator)
	// The proof is sent in any case, so that the coordinator can report why this node did not join.
	if _, err := conn.Write(transcript.MAC(roleNode)); err != nil && sameSecret {
		return nil, err
	}
	if !sameSecret {
		return nil, otherSecret(encrypted)
	}
	if err := checkModes(s.encrypts(), encrypt, encrypted); err != nil {
		return nil, err
	}
	return &greeting{r, conn, heartbeat, transcript}, nil
}

// readFirstAck reads the first frame of a link: how many messages the other side has received over earlier links. It is also
// the confirmation that the other side uses this link.
func (l *link) readFirstAck() (received uint64, err error) {
	f, err := l.reader.read(l.raw)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read its first frame: %w", err)
	case f.kind == kindClose:
		return 0, errGivenUp
	case f.kind != kindAck:
		return 0, fmt.Errorf("%w: its first frame is of kind %d", errProtocol, f.kind)
	}
	return decodeAck(f.body)
}
