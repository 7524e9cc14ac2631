package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/auth"
)

// A connection begins with a greeting, of messages that have fixed lengths:
//
//	caller                                          called
//	hello:  magic, who, to whom, nonce, MAC  ->
//	                                         <-     challenge: nonce, MAC
//	proof:  MAC                              ->
//	                                         <-     verdict: one of two MACs
//
// Each MAC is an HMAC-SHA-256 with the job's key over a label of its own and all that was said before. The caller's first
// MAC keeps strangers from being answered at all; since it could be recorded and sent again, it is the proof that counts.
const (
	helloBytes     = 88
	challengeBytes = nonceBytes + macBytes
	macBytes       = auth.MACBytes
	nonceBytes     = 32
	version        = 3
	magic          = "ibrunTCP"
)

// Labels of what the MACs say.
const (
	labelHello     = "hello"
	labelChallenge = "challenge"
	labelProof     = "proof"
	labelWelcome   = "welcome" // the connection is up
	labelBusy      = "busy"    // there is, or will be, another one between the two
)

// hello says who calls whom.
type hello struct {
	from, to, size uint32
	nonce          [nonceBytes]byte
}

// transcript is what has been said, as far as MACs bind it: the hello, and the nonce of the challenge.
type transcript struct {
	hello hello
	nonce [nonceBytes]byte
}

// mac authenticates a transcript under a label.
func (t *transcript) mac(key *[32]byte, label string) []byte {
	return t.messages(key).MAC(label)
}

// says tells whether b is the MAC of the transcript under a label.
func (t *transcript) says(key *[32]byte, label string, b []byte) bool {
	return t.messages(key).Verify(b, label)
}

// messages returns the bytes that the MACs cover. Before the challenge its nonce is zero.
func (t *transcript) messages(key *[32]byte) *auth.Transcript {
	return auth.Key(*key).Transcript(t.hello.append(make([]byte, 0, helloBytes)), t.nonce[:])
}

// append appends a hello without its MAC.
func (h *hello) append(b []byte) []byte {
	b = append(b, magic...)
	for _, x := range []uint32{version, h.from, h.to, h.size} {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return append(b, h.nonce[:]...)
}

// message is the hello as it is sent.
func (t *transcript) message(key *[32]byte) []byte {
	return append(t.hello.append(make([]byte, 0, helloBytes)), t.mac(key, labelHello)...)
}

// parseHello reads a hello that is meant for peer self of size, and authenticates it.
func parseHello(b []byte, key *[32]byte, self, size uint32) (t transcript, err error) {
	if len(b) != helloBytes || string(b[:len(magic)]) != magic {
		return t, fmt.Errorf("%w: not a hello", fabric.ErrCorrupt)
	}
	v := binary.LittleEndian.Uint32(b[8:])
	h := hello{from: binary.LittleEndian.Uint32(b[12:]), to: binary.LittleEndian.Uint32(b[16:]),
		size: binary.LittleEndian.Uint32(b[20:]), nonce: [nonceBytes]byte(b[24:56])}
	t.hello = h
	switch {
	case !t.says(key, labelHello, b[helloBytes-macBytes:]):
		return transcript{}, fmt.Errorf("%w: a stranger", fabric.ErrCorrupt)
	case v != version || h.to != self || h.size != size || h.from >= size || h.from == self:
		return transcript{}, fmt.Errorf("%w: hello of version %d, from %d to %d of %d", fabric.ErrCorrupt, v, h.from, h.to, h.size)
	}
	return t, nil
}

// parseChallenge reads the answer to t's hello, and authenticates it. The nonce becomes part of t.
func (t *transcript) parseChallenge(b []byte, key *[32]byte) error {
	if len(b) != challengeBytes {
		return fmt.Errorf("%w: not a challenge", fabric.ErrCorrupt)
	}
	t.nonce = [nonceBytes]byte(b)
	if !t.says(key, labelChallenge, b[nonceBytes:]) {
		return fmt.Errorf("%w: the called side does not know the secret of this job", fabric.ErrCorrupt)
	}
	return nil
}
