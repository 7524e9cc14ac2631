package cm

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/verbs"
)

// Kind is the kind of a datagram of the connection manager. The names are those of the InfiniBand
// communication manager. The RTU (ready to use) is not a datagram but the first message over the
// connection.
type Kind uint8

// The kinds of datagrams.
const (
	REQ    Kind = iota + 1 // request: connect to these queue pairs
	REP                    // reply: they are connected to these queue pairs
	DREQ                   // disconnect request: this peer has closed
	Probe                  // asks whether the process exists; sent to its responder
	Alive                  // answers a probe, with its number
	REJ                    // reject: the device refuses the connection; answers a REQ
	GiveUp                 // this peer has given up the other one for good
)

// HasReason reports whether a datagram of this kind has a reason, as text, in place of the address.
func (k Kind) HasReason() bool { return k == REJ || k == GiveUp }

// KeyTable is the location of a peer's key table.
type KeyTable struct {
	Addr uint64
	RKey uint32
}

// Message is a datagram of the connection manager. In bytes, with integers in little-endian order:
//
//	0    magic        4 bytes
//	4    version, kind, number of lanes, length of the address: 1 byte each
//	8    from, to, size, epoch, nextSeq, grant: 4 bytes each
//	32   fromIncarnation, toIncarnation: 8 bytes each
//	48   reqQP        see below
//	56   keys         address 8 bytes, key 4 bytes
//	68   returned, mtu 1 byte each, then zero 2 bytes
//	72   qps          for each lane 8 bytes, see below
//	     address      or the reason
//	     MAC          32 bytes
//
// The queue pair of a lane has 8 bytes: its number 3 bytes, rail and path 4 bits each, the first
// packet sequence number 4 bytes.
type Message struct {
	Kind           Kind
	From, To, Size uint32
	Epoch          uint32 // of the connection

	FromIncarnation, ToIncarnation uint64

	// NextSeq: number of the message that the sender expects next; in a probe and its answer:
	// number of the probe
	NextSeq uint32
	// Grant: the receiver may send messages with lower numbers; in a DREQ: messages sent; with a
	// reason: error number, or 0.
	Grant uint32
	Lanes uint8        // number of elements of Pairs in use; not 0 in a REQ or a REP, 0 with a reason
	Pairs [MaxLanes]QP // of the sender; the first one is for messages
	ReqQP QP           // in a REP or REJ: the first queue pair of the REQ
	Keys  KeyTable     // of the sender
	// Returned has a bit for each rail of the sender whose link has come up since the last
	// connection. The receiver no longer leaves it out.
	Returned uint8
	MTU      verbs.MTU // the largest packets that reach the peer of the sender, 0 if not known
	// Address: of the sender, or the reason as text, at most maxReason bytes; see HasReason
	Address []byte
}

const (
	magic       = "ibRC"
	headerBytes = 72
	laneBytes   = 8
	macBytes    = auth.MACBytes
)

// MaxMessage is the length of the longest datagram.
const MaxMessage = headerBytes + MaxLanes*laneBytes + maxAddressBytes + macBytes

// MessageBytes returns the length of the datagrams of a process with so many lanes over so many
// rails.
func MessageBytes(lanes, rails int) int {
	return headerBytes + lanes*laneBytes + addressHead + MaxPartitions*udNumbersBytes + rails*railAddressBytes + macBytes
}

// Append appends the datagram, authenticated with the key of the job.
func (m *Message) Append(b []byte, key *[32]byte) []byte {
	start := len(b)
	b = append(b, magic...)
	b = append(b, version, byte(m.Kind), m.Lanes, byte(len(m.Address)))
	for _, x := range [...]uint32{m.From, m.To, m.Size, m.Epoch, m.NextSeq, m.Grant} {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	b = binary.LittleEndian.AppendUint64(b, m.FromIncarnation)
	b = binary.LittleEndian.AppendUint64(b, m.ToIncarnation)
	b = m.ReqQP.append(b)
	b = binary.LittleEndian.AppendUint64(b, m.Keys.Addr)
	b = binary.LittleEndian.AppendUint32(b, m.Keys.RKey)
	b = append(b, m.Returned, byte(m.MTU), 0, 0)
	for i := range m.Pairs[:m.Lanes] {
		b = m.Pairs[i].append(b)
	}
	b = append(b, m.Address...)
	return append(b, messageMAC(b[start:], key)...)
}

func messageMAC(b []byte, key *[32]byte) []byte {
	return auth.Key(*key).MAC("", b)
}

// ParseMessage parses a datagram and checks its MAC. The address of the result is a part of b.
func ParseMessage(b []byte, key *[32]byte) (m Message, err error) {
	if len(b) < headerBytes+macBytes || string(b[:4]) != magic || b[4] != version {
		return m, fmt.Errorf("%w: not a datagram of the connection manager", fabric.ErrCorrupt)
	}
	body, mac := b[:len(b)-macBytes], b[len(b)-macBytes:]
	if !auth.Key(*key).Verify(mac, "", body) {
		return m, fmt.Errorf("%w: a datagram that is not authenticated with the key of this job", fabric.ErrCorrupt)
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	m = Message{
		Kind: Kind(b[5]), Lanes: b[6],
		From: word(8), To: word(12), Size: word(16), Epoch: word(20), NextSeq: word(24), Grant: word(28),
		FromIncarnation: binary.LittleEndian.Uint64(b[32:]), ToIncarnation: binary.LittleEndian.Uint64(b[40:]),
		ReqQP: parseQP(b[48:]), Keys: KeyTable{binary.LittleEndian.Uint64(b[56:]), word(64)}, Returned: b[68],
		MTU: verbs.MTU(b[69]),
	}
	rest, valid := body[headerBytes:], m.Kind >= REQ && m.Kind <= GiveUp && m.ReqQP.Lane == Lane{} &&
		m.Returned < 1<<MaxRails && m.MTU <= verbs.MTU4096 && b[70] == 0 && b[71] == 0
	if m.Lanes == 0 && m.Kind <= REP || m.Lanes > MaxLanes || len(rest) != int(m.Lanes)*laneBytes+int(b[7]) {
		return Message{}, errMalformed
	}
	for i := range m.Pairs[:m.Lanes] {
		p := &m.Pairs[i]
		*p = parseQP(rest)
		rest = rest[laneBytes:]
		valid = valid && p.Lane.Rail < MaxRails && p.Lane.Path < MaxLanes && (i == 0) == (p.Lane == Lane{}) &&
			(i == 0 || !Offers(m.Pairs[:i], p.Lane))
	}
	if m.Kind.HasReason() {
		valid = valid && m.Lanes == 0 && len(rest) <= maxReason
	}
	if m.Address = rest; !valid {
		return Message{}, errMalformed
	}
	return m, nil
}

var errMalformed = fmt.Errorf("%w: malformed datagram of the connection manager", fabric.ErrCorrupt)
