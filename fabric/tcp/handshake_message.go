package tcp

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/tunables"
)

// A connection begins with a handshake of four messages of fixed length:
//
//	client (connects)                        server (accepts)
//	hello:  magic, version, from, to, size,
//	        options, ends, session, nonce,
//	        MAC                              ->
//	                                         <-     challenge: nonce, options, MAC
//	proof:  position, MAC                    ->
//	                                         <-     verdict: position, one of four MACs
//
// Each MAC is an HMAC-SHA-256 with the job's key over a label of its own, the hello, the nonce and options of the challenge, and
// the position. The MAC of the hello keeps the server from answering clients that do not know the key. It could be recorded and
// sent again, so it is the proof that authenticates the client.
//
// With encryption, both sides begin with TLS after the challenge, and the proof and the verdict are sent over it. Their MACs also
// cover the channel binding of the TLS session. So an attacker between the peers, with one TLS session to each of them, is not
// authenticated by either.
//
// Hello and challenge also say whether nothing arrives that their sender has sent over the last connection. Both are short, so
// the peer learns that if only long packets are lost.
//
// A connection within one machine has no checksums. If the client finds that both ends have the same address, it names the ends
// in the hello. If the server finds the same ends, it sets optionLocal in the challenge. A proxy between the two has a connection
// to each of them, and only by a rare chance do these have the same ports.
//
// A session is what two peers send each other over one connection after the other. If one breaks, the next one resumes the
// session: each side sends again what follows the position of the other.
const (
	helloBytes     = len(magic) + 5*4 + endsBytes + sessionBytes + nonceBytes + macBytes
	challengeBytes = nonceBytes + 4 + macBytes
	positionBytes  = 8 + macBytes // of a proof or a verdict
	macBytes       = auth.MACBytes
	nonceBytes     = 32
	sessionBytes   = 16
	endsBytes      = 16 + 2 + 2
	version        = 7
	magic          = "ibrunTCP"
)

// Labels of the MACs. Their values are part of the wire format.
const (
	labelHello     = "hello"
	labelChallenge = "challenge"
	labelProof     = "proof"
	labelAccept    = "welcome" // verdict: this is the connection of the two peers
	labelDuplicate = "busy"    // verdict: the two peers have another connection, or will have it soon
	labelEnded     = "ended"   // verdict: the session has ended, and the two peers will have no connection any more
	labelUnreached = "unheard" // verdict: the same, because nothing that the server has sent has arrived
)

// options are settings that both peers of a connection must have in common, optionStalled and optionLocal.
type options uint32

const (
	optionChecksum options = 1 << 0 // frames have checksums
	optionEncrypt  options = 1 << 1 // everything after the challenge is sent over TLS
	optionStalled  options = 1 << 2 // not a setting: nothing that the sender of this message sends arrives
	optionLocal    options = 1 << 3 // not a setting, in the challenge: the connection is within one machine
)

// settings returns what both peers must have in common.
func (o options) settings() options { return o &^ (optionStalled | optionLocal) }

// sides returns the options of this side and of the peer. client says which side this process is.
func (t *transcript) sides(client bool) (here, there options) {
	if client {
		return t.hello.options, t.options
	}
	return t.options, t.hello.options
}

// checked reports whether the frames of the connection have checksums. Both sides must have found that it is local if they have
// none.
func (t *transcript) checked() bool {
	return t.options&optionChecksum != 0 && (t.options&optionLocal == 0 || t.hello.ends == ends{})
}

// stalled reports whether this side (here) and the peer (there) have set optionStalled. client says which side this process is.
func (t *transcript) stalled(client bool) (here, there bool) {
	x, y := t.sides(client)
	return x&optionStalled != 0, y&optionStalled != 0
}

// session identifies what two peers send each other. It is random, and proposed by the client of the first connection.
type session [sessionBytes]byte

// ends identifies a connection within one machine: the address that both ends have, and the ports of the client and of the
// server. It is zero for another connection.
type ends [endsBytes]byte

// newEnds returns the ends of a connection.
func newEnds(client, server netip.AddrPort) (x ends) {
	if !client.IsValid() || client.Addr() != server.Addr() {
		return x
	}
	ip := client.Addr().As16()
	n := copy(x[:], ip[:])
	binary.LittleEndian.PutUint16(x[n:], client.Port())
	binary.LittleEndian.PutUint16(x[n+2:], server.Port())
	return x
}

// hello is the first message: the numbers of the client and the server, the size of the set, the client's settings, the ends of
// the connection, and the session.
type hello struct {
	from, to, size uint32
	options        options
	ends           ends
	session        session
	nonce          [nonceBytes]byte
}

// transcript is the data that the MACs cover: the hello, and the nonce and the settings in the challenge.
type transcript struct {
	hello   hello
	nonce   [nonceBytes]byte
	options options // of the server
	binding string  // of the TLS session, from the proof on; empty without encryption
}

// mac returns the MAC of the transcript under a label.
func (t *transcript) mac(key *[32]byte, label string) []byte {
	return t.messages(key, nil).MAC(label)
}

// verify reports whether b is the MAC of the transcript under a label.
func (t *transcript) verify(key *[32]byte, label string, b []byte) bool {
	return t.messages(key, nil).Verify(b, label)
}

// messages returns the bytes that the MACs cover. Before the challenge its nonce and options are zero.
func (t *transcript) messages(key *[32]byte, position []byte) *auth.Transcript {
	challenge := binary.LittleEndian.AppendUint32(t.nonce[:len(t.nonce):len(t.nonce)], uint32(t.options))
	return auth.Key(*key).Transcript(t.hello.append(make([]byte, 0, helloBytes)), challenge, []byte(t.binding), position)
}

// positionMessage returns a proof or a verdict: the position up to which this side has received, and the MAC.
func (t *transcript) positionMessage(key *[32]byte, label string, position uint64) []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, positionBytes), position)
	return append(b, t.messages(key, b).MAC(label)...)
}

// parsePosition decodes and authenticates a proof or a verdict. ok is false if it does not have this label.
func (t *transcript) parsePosition(b []byte, key *[32]byte, label string) (position uint64, ok bool) {
	if len(b) != positionBytes || !t.messages(key, b[:8]).Verify(b[8:], label) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}

// append appends the encoded hello, without its MAC, to b.
func (h *hello) append(b []byte) []byte {
	b = append(b, magic...)
	for _, x := range []uint32{version, h.from, h.to, h.size, uint32(h.options)} {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	b = append(b, h.ends[:]...)
	b = append(b, h.session[:]...)
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
		size: binary.LittleEndian.Uint32(b[20:]), options: options(binary.LittleEndian.Uint32(b[24:])), ends: ends(b[28:]),
		session: session(b[28+endsBytes:]), nonce: [nonceBytes]byte(b[28+endsBytes+sessionBytes:])}
	t.hello = h
	switch {
	case !t.verify(key, labelHello, b[helloBytes-macBytes:]):
		return transcript{}, fmt.Errorf("%w: handshake: the client does not know the secret of this job", fabric.ErrCorrupt)
	case v != version || h.to != self || h.size != size || h.from >= size || h.from == self || h.session == session{}:
		return transcript{}, fmt.Errorf("%w: handshake: hello of version %d, from peer %d to peer %d of %d",
			fabric.ErrCorrupt, v, h.from, h.to, h.size)
	}
	return t, nil
}

// challenge returns the answer to t's hello, with the nonce and options of t.
func (t *transcript) challenge(key *[32]byte) []byte {
	b := append(make([]byte, 0, challengeBytes), t.nonce[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(t.options))
	return append(b, t.mac(key, labelChallenge)...)
}

// parseChallenge decodes and authenticates the answer to t's hello. Its nonce and options become part of t.
func (t *transcript) parseChallenge(b []byte, key *[32]byte) error {
	if len(b) != challengeBytes {
		return fmt.Errorf("%w: handshake: not a challenge message", fabric.ErrCorrupt)
	}
	t.nonce, t.options = [nonceBytes]byte(b), options(binary.LittleEndian.Uint32(b[nonceBytes:]))
	if !t.verify(key, labelChallenge, b[nonceBytes+4:]) {
		return fmt.Errorf("%w: handshake: the server does not know the secret of this job", fabric.ErrCorrupt)
	}
	return nil
}

// optionsError returns an error if the settings of the two peers differ. client says which side this process is.
func (t *transcript) optionsError(client bool) error {
	here, there := t.sides(client)
	here, there = here.settings(), there.settings()
	if here == there {
		return nil
	}
	if (here^there)&optionEncrypt != 0 {
		return fmt.Errorf("its encryption is %s, and that of this process is %s: set %s to the same value at all processes",
			onOff(there&optionEncrypt != 0), onOff(here&optionEncrypt != 0), tunables.Encrypt)
	}
	if (here^there)&optionChecksum != 0 {
		return fmt.Errorf("its checksums are %s, and those of this process are %s: set %s to the same value at all processes",
			onOff(there&optionChecksum != 0), onOff(here&optionChecksum != 0), tunables.Checksum)
	}
	return fmt.Errorf("its settings are %#x, and those of this process are %#x: run the same version everywhere", there, here)
}

// onOff returns the text of a setting.
func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
