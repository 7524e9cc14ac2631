package rdma

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/verbs"
)

// cmKind is the kind of a datagram of the connection manager. The names are those of the InfiniBand communication manager. The
// RTU (ready to use) is not a datagram but the first message over the connection, see kindRTU.
type cmKind uint8

const (
	cmREQ    cmKind = iota + 1 // request: connect to these queue pairs
	cmREP                      // reply: they are connected to these queue pairs
	cmDREQ                     // disconnect request: this peer has closed
	cmProbe                    // asks whether the process exists; sent to its responder
	cmAlive                    // answers a probe, with its number
	cmREJ                      // reject: the device refuses the connection; answers a REQ
	cmGiveUp                   // this peer has given up the other one for good; see series.go
)

// hasReason reports whether a datagram of this kind has a reason, as text, in place of the address.
func (k cmKind) hasReason() bool { return k == cmREJ || k == cmGiveUp }

// qpInfo is what a peer has to know about a queue pair in addition to the address of its rail.
type qpInfo struct {
	qpn, psn uint32 // 24 bits each
	lane     lane
}

// cmMessage is a datagram of the connection manager. In bytes, with integers in little-endian order:
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
// The queue pair of a lane has 8 bytes: its number 3 bytes, rail and path 4 bits each, the first packet sequence number 4 bytes.
type cmMessage struct {
	kind           cmKind
	from, to, size uint32
	epoch          uint32 // of the connection

	fromIncarnation, toIncarnation uint64

	nextSeq uint32 // number of the message that the sender expects next; in a probe and its answer: number of the probe
	// grant: the receiver may send messages with lower numbers; in a DREQ: messages sent; with a reason: error number, or 0.
	grant uint32
	lanes uint8            // number of elements of qps in use; not 0 in a REQ or a REP, 0 with a reason
	qps   [maxLanes]qpInfo // of the sender; the first one is for messages
	reqQP qpInfo           // in a REP or REJ: the first queue pair of the REQ
	keys  keyTable         // of the sender
	// returned has a bit for each rail of the sender whose link has come up since the last connection. The receiver no longer
	// leaves it out.
	returned uint8
	mtu      verbs.MTU // the largest packets that reach the peer of the sender, 0 if not known
	address  []byte    // of the sender, or the reason as text, at most maxReason bytes; see hasReason
}

const (
	cmMagic       = "ibRC"
	cmHeaderBytes = 72
	laneBytes     = 8
	macBytes      = auth.MACBytes
	maxCMMessage  = cmHeaderBytes + maxLanes*laneBytes + maxAddressBytes + macBytes
)

// cmMessageBytes returns the length of the datagrams of a process with so many lanes over so many rails.
func cmMessageBytes(lanes, rails int) int {
	return cmHeaderBytes + lanes*laneBytes + addressHead + maxPartitions*udNumbersBytes + rails*railAddressBytes + macBytes
}

// append appends the datagram, authenticated with the key of the job.
func (m *cmMessage) append(b []byte, key *[32]byte) []byte {
	start := len(b)
	b = append(b, cmMagic...)
	b = append(b, version, byte(m.kind), m.lanes, byte(len(m.address)))
	for _, x := range [...]uint32{m.from, m.to, m.size, m.epoch, m.nextSeq, m.grant} {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	b = binary.LittleEndian.AppendUint64(b, m.fromIncarnation)
	b = binary.LittleEndian.AppendUint64(b, m.toIncarnation)
	b = m.reqQP.append(b)
	b = binary.LittleEndian.AppendUint64(b, m.keys.addr)
	b = binary.LittleEndian.AppendUint32(b, m.keys.rkey)
	b = append(b, m.returned, byte(m.mtu), 0, 0)
	for i := range m.qps[:m.lanes] {
		b = m.qps[i].append(b)
	}
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
		kind: cmKind(b[5]), lanes: b[6],
		from: word(8), to: word(12), size: word(16), epoch: word(20), nextSeq: word(24), grant: word(28),
		fromIncarnation: binary.LittleEndian.Uint64(b[32:]), toIncarnation: binary.LittleEndian.Uint64(b[40:]),
		reqQP: parseQPInfo(b[48:]), keys: keyTable{binary.LittleEndian.Uint64(b[56:]), word(64)}, returned: b[68],
		mtu: verbs.MTU(b[69]),
	}
	rest, valid := body[cmHeaderBytes:], m.kind >= cmREQ && m.kind <= cmGiveUp && m.reqQP.lane == lane{} &&
		m.returned < 1<<maxRails && m.mtu <= verbs.MTU4096 && b[70] == 0 && b[71] == 0
	if m.lanes == 0 && m.kind <= cmREP || m.lanes > maxLanes || len(rest) != int(m.lanes)*laneBytes+int(b[7]) {
		return cmMessage{}, errMalformed
	}
	for i := range m.qps[:m.lanes] {
		p := &m.qps[i]
		*p = parseQPInfo(rest)
		rest = rest[laneBytes:]
		valid = valid && p.lane.rail < maxRails && p.lane.path < maxLanes && (i == 0) == (p.lane == lane{}) &&
			(i == 0 || !offers(m.qps[:i], p.lane))
	}
	if m.kind.hasReason() {
		valid = valid && m.lanes == 0 && len(rest) <= maxReason
	}
	if m.address = rest; !valid {
		return cmMessage{}, errMalformed
	}
	return m, nil
}

var errMalformed = fmt.Errorf("%w: malformed datagram of the connection manager", fabric.ErrCorrupt)

func (p *qpInfo) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, p.qpn&maxQPN|uint32(p.lane.rail)<<24|uint32(p.lane.path)<<28)
	return binary.LittleEndian.AppendUint32(b, p.psn)
}

// maxQPN is the highest number that a queue pair can have.
const maxQPN = 1<<24 - 1

// parseQPInfo parses what append returns. Rail and path may be out of range.
func parseQPInfo(b []byte) qpInfo {
	w := binary.LittleEndian.Uint32(b)
	return qpInfo{w & maxQPN, binary.LittleEndian.Uint32(b[4:]), lane{uint8(w >> 24 & 15), uint8(w >> 28)}}
}
