package rdma

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/auth"
)

// cmKind is the kind of a datagram of the connection manager. The names are those of the InfiniBand communication manager. The
// RTU (ready to use) is not a datagram but the first message over the connection, see kindRTU.
type cmKind uint8

const (
	cmREQ   cmKind = iota + 1 // request: connect to these queue pairs
	cmREP                     // reply: they are connected to these queue pairs
	cmDREQ                    // disconnect request: this peer has closed
	cmProbe                   // asks whether the process exists; sent to its responder
	cmAlive                   // answers a probe, with its number
	cmREJ                     // reject: the device refuses the connection; answers a REQ
)

// qpInfo is what a peer has to know about a queue pair in addition to the address of its rail.
type qpInfo struct{ qpn, psn uint32 }

// cmMessage is a datagram of the connection manager. In bytes, with integers in little-endian order:
//
//	0    magic        4 bytes
//	4    version, kind, number of rails, length of the address: 1 byte each
//	8    from, to, size, epoch, nextSeq, grant: 4 bytes each
//	32   fromIncarnation, toIncarnation: 8 bytes each
//	48   qps          maxRails times the queue pair number and the first packet sequence number, 4 bytes each
//	80   reqQP        queue pair number and first packet sequence number
//	88   keys         address 8 bytes, key 4 bytes, zero 4 bytes
//	104  address
//	     MAC          32 bytes
type cmMessage struct {
	kind           cmKind
	from, to, size uint32
	epoch          uint32 // of the connection

	fromIncarnation, toIncarnation uint64

	nextSeq uint32           // number of the message that the sender expects next; in a probe and its answer: number of the probe
	grant   uint32           // the receiver may send messages with lower numbers; in a DREQ: messages sent; in a REJ: error number
	rails   uint8            // number of elements of qps in use
	qps     [maxRails]qpInfo // of the sender
	reqQP   qpInfo           // in a REP or REJ: the first queue pair of the REQ
	keys    keyTable         // of the sender
	address []byte           // of the sender
}

const (
	cmMagic       = "ibRC"
	cmHeaderBytes = 104
	macBytes      = auth.MACBytes
	maxCMMessage  = cmHeaderBytes + maxAddressBytes + macBytes
)

// cmMessageBytes returns the length of the datagrams of a process with this number of rails.
func cmMessageBytes(rails int) int {
	return cmHeaderBytes + addressHead + maxPartitions*udNumbersBytes + rails*railAddressBytes + macBytes
}

// append appends the datagram, authenticated with the key of the job.
func (m *cmMessage) append(b []byte, key *[32]byte) []byte {
	start := len(b)
	b = append(b, cmMagic...)
	b = append(b, version, byte(m.kind), m.rails, byte(len(m.address)))
	for _, x := range [...]uint32{m.from, m.to, m.size, m.epoch, m.nextSeq, m.grant} {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	b = binary.LittleEndian.AppendUint64(b, m.fromIncarnation)
	b = binary.LittleEndian.AppendUint64(b, m.toIncarnation)
	for _, p := range append(m.qps[:], m.reqQP) {
		b = binary.LittleEndian.AppendUint32(b, p.qpn)
		b = binary.LittleEndian.AppendUint32(b, p.psn)
	}
	b = binary.LittleEndian.AppendUint64(b, m.keys.addr)
	b = binary.LittleEndian.AppendUint32(b, m.keys.rkey)
	b = append(b, 0, 0, 0, 0)
	b = append(b, m.address...)
	return append(b, cmMAC(b[start:], key)...)
}

func cmMAC(b []byte, key *[32]byte) []byte {
	return auth.Key(*key).MAC("", b)
}

// parseCMMessage parses a datagram and checks its MAC. The address of the result is a part of b.
func parseCMMessage(b []byte, key *[32]byte) (m cmMessage, err error) {
	if len(b) < cmHeaderBytes+macBytes || string(b[:4]) != cmMagic || b[4] != version {
		return m, fmt.Errorf("%w: not a datagram of the connection manager", fabric.ErrCorrupt)
	}
	body, mac := b[:len(b)-macBytes], b[len(b)-macBytes:]
	if !auth.Key(*key).Verify(mac, "", body) {
		return m, fmt.Errorf("%w: a datagram that is not authenticated with the key of this job", fabric.ErrCorrupt)
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	m = cmMessage{
		kind: cmKind(b[5]), rails: b[6],
		from: word(8), to: word(12), size: word(16), epoch: word(20), nextSeq: word(24), grant: word(28),
		fromIncarnation: binary.LittleEndian.Uint64(b[32:]), toIncarnation: binary.LittleEndian.Uint64(b[40:]),
		reqQP: qpInfo{word(80), word(84)}, keys: keyTable{binary.LittleEndian.Uint64(b[88:]), word(96)},
		address: body[cmHeaderBytes:],
	}
	for i := range m.qps {
		m.qps[i] = qpInfo{word(48 + 8*i), word(52 + 8*i)}
	}
	if m.kind < cmREQ || m.kind > cmREJ || m.rails == 0 || m.rails > maxRails || int(b[7]) != len(m.address) ||
		word(100) != 0 {
		return cmMessage{}, fmt.Errorf("%w: malformed datagram of the connection manager", fabric.ErrCorrupt)
	}
	return m, nil
}
