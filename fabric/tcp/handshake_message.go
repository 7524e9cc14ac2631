package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/auth"
)

// A connection begins with a handshake of four messages of fixed length:
//
//	client (connects)                        server (accepts)
//	hello:  magic, version, from, to, size, nonce, MAC  ->
//	                                         <-     challenge: nonce, MAC
//	proof:  MAC                              ->
//	                                         <-     verdict: one of two MACs
//
// Each MAC is an HMAC-SHA-256 with the job's key over a label of its own, the hello and the nonce of the challenge. The MAC of
// the hello keeps the server from answering clients that do not know the key. It could be recorded and sent again, so it is the
// proof that authenticates the client.
const (
	helloBytes     = 88
	challengeBytes = nonceBytes + macBytes
	macBytes       = auth.MACBytes
	nonceBytes     = 32
	version        = 3
	magic          = "ibrunTCP"
)

// Labels of the MACs. Their values are part of the wire format.
const (
	labelHello     = "hello"
	labelChallenge = "challenge"
	labelProof     = "proof"
	labelAccept    = "welcome" // verdict: this is the connection of the two peers
	labelDuplicate = "busy"    // verdict: the two peers have another connection, or will have it soon
)

// hello is the first message: the numbers of the client and the server, and the size of the set.
type hello struct {
	from, to, size uint32
	nonce          [nonceBytes]byte
}

// transcript is the data that the MACs cover: the hello, and the nonce of the challenge.
type transcript struct {
	hello hello
	nonce [nonceBytes]byte
}

// mac returns the MAC of the transcript under a label.
func (t *transcript) mac(key *[32]byte, label string) []byte {
	return t.messages(key).MAC(label)
}

// verify reports whether b is the MAC of the transcript under a label.
func (t *transcript) verify(key *[32]byte, label string, b []byte) bool {
	return t.messages(key).Verify(b, label)
}

// messages returns the bytes that the MACs cover. Before the challenge its nonce is zero.
func (t *transcript) messages(key *[32]byte) *auth.Transcript {
	return auth.Key(*key).Transcript(t.hello.append(make([]byte, 0, helloBytes)), t.nonce[:])
}

// append appends the encoded hello, without its MAC, to b.
func (h *hello) append(b []byte) []byte {
	b = append(b, magic...)
	for _, x := range []uint32{version, h.from, h.to, h.size} {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return append(b, h.nonce[:]...)
}

// helloMessage returns the hello with its MAC.
func (t *transcript) helloMessage(key *[32]byte) []byte {
	return append(t.hello.append(make([]byte, 0, helloBytes)), t.mac(key, labelHello)...)
}

// parseHello decodes and authenticates a hello that is meant for peer self of size.
func parseHello(b []byte, key *[32]byte, self, size uint32) (t transcript, err error) {
	if len(b) != helloBytes || string(b[:len(magic)]) != magic {
		return t, fmt.Errorf("%w: handshake: not a hello message", fabric.ErrCorrupt)
	}
	v := binary.LittleEndian.Uint32(b[8:])
	h := hello{from: binary.LittleEndian.Uint32(b[12:]), to: binary.LittleEndian.Uint32(b[16:]),
		size: binary.LittleEndian.Uint32(b[20:]), nonce: [nonceBytes]byte(b[24:56])}
	t.hello = h
	switch {
	case !t.verify(key, labelHello, b[helloBytes-macBytes:]):
		return transcript{}, fmt.Errorf("%w: handshake: the client does not know the secret of this job", fabric.ErrCorrupt)
	case v != version || h.to != self || h.size != size || h.from >= size || h.from == self:
		return transcript{}, fmt.Errorf("%w: handshake: hello of version %d, from peer %d to peer %d of %d",
			fabric.ErrCorrupt, v, h.from, h.to, h.size)
	}
	return t, nil
}

// parseChallenge decodes and authenticates the answer to t's hello. Its nonce becomes part of t.
func (t *transcript) parseChallenge(b []byte, key *[32]byte) error {
	if len(b) != challengeBytes {
		return fmt.Errorf("%w: handshake: not a challenge message", fabric.ErrCorrupt)
	}
	t.nonce = [nonceBytes]byte(b)
	if !t.verify(key, labelChallenge, b[nonceBytes:]) {
		return fmt.Errorf("%w: handshake: the server does not know the secret of this job", fabric.ErrCorrupt)
	}
	return nil
}
