package rdma

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/auth"
)

// said is the kind of a greeting.
type said uint8

const (
	saidAsk    said = iota + 1 // connect to these queue pairs
	saidAnswer                 // they are connected to these
	saidBye                    // this peer has closed
)

// pair is what a peer has to know of a queue pair that the address does not tell.
type pair struct{ num, psn uint32 }

// greeting is a datagram. In bytes, numbers little-endian:
//
//	0    magic        4 bytes
//	4    version, kind, rails, bytes of the address: 1 byte each
//	8    from, to, size, epoch, expect, grant: 4 bytes each
//	32   mine, theirs: 8 bytes each
//	48   pairs        maxRails times number and first packet number, 4 bytes each
//	80   asked        number and first packet number
//	88   keys         address 8 bytes, key 4 bytes, zero 4 bytes
//	104  address
//	     MAC          32 bytes
type greeting struct {
	kind           said
	from, to, size uint32
	epoch          uint32         // of the connection
	mine, theirs   uint64         // incarnations of the sender and of the receiver
	expect         uint32         // number of the message that the sender expects next
	grant          uint32         // it may be sent messages below this; of a goodbye, how many it has sent
	rails          uint8          // how many pairs there are
	pairs          [maxRails]pair // the sender's
	asked          pair           // of an answer: the first pair of the request
	keys           keyTable       // the sender's
	address        []byte         // the sender's
}

const (
	greetingMagic = "ibRC"
	greetingHead  = 104
	macBytes      = auth.MACBytes
	maxGreeting   = greetingHead + maxAddressBytes + macBytes
)

// append appends the greeting, authenticated with the job's key.
func (g *greeting) append(b []byte, key *[32]byte) []byte {
	start := len(b)
	b = append(b, greetingMagic...)
	b = append(b, version, byte(g.kind), g.rails, byte(len(g.address)))
	for _, x := range [...]uint32{g.from, g.to, g.size, g.epoch, g.expect, g.grant} {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	b = binary.LittleEndian.AppendUint64(b, g.mine)
	b = binary.LittleEndian.AppendUint64(b, g.theirs)
	for _, p := range append(g.pairs[:], g.asked) {
		b = binary.LittleEndian.AppendUint32(b, p.num)
		b = binary.LittleEndian.AppendUint32(b, p.psn)
	}
	b = binary.LittleEndian.AppendUint64(b, g.keys.addr)
	b = binary.LittleEndian.AppendUint32(b, g.keys.rkey)
	b = append(b, 0, 0, 0, 0)
	b = append(b, g.address...)
	return append(b, greetingMAC(b[start:], key)...)
}

func greetingMAC(b []byte, key *[32]byte) []byte {
	return auth.Key(*key).MAC("", b)
}

// parseGreeting reads and authenticates a greeting. The address is a part of b.
func parseGreeting(b []byte, key *[32]byte) (g greeting, err error) {
	if len(b) < greetingHead+macBytes || string(b[:4]) != greetingMagic || b[4] != version {
		return g, fmt.Errorf("%w: not a greeting", fabric.ErrCorrupt)
	}
	body, mac := b[:len(b)-macBytes], b[len(b)-macBytes:]
	if !auth.Key(*key).Verify(mac, "", body) {
		return g, fmt.Errorf("%w: a greeting that is not of this job", fabric.ErrCorrupt)
	}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	g = greeting{
		kind: said(b[5]), rails: b[6],
		from: word(8), to: word(12), size: word(16), epoch: word(20), expect: word(24), grant: word(28),
		mine: binary.LittleEndian.Uint64(b[32:]), theirs: binary.LittleEndian.Uint64(b[40:]),
		asked: pair{word(80), word(84)}, keys: keyTable{binary.LittleEndian.Uint64(b[88:]), word(96)},
		address: body[greetingHead:],
	}
	for i := range g.pairs {
		g.pairs[i] = pair{word(48 + 8*i), word(52 + 8*i)}
	}
	if g.kind < saidAsk || g.kind > saidBye || g.rails == 0 || g.rails > maxRails || int(b[7]) != len(g.address) ||
		word(100) != 0 {
		return greeting{}, fmt.Errorf("%w: malformed greeting", fabric.ErrCorrupt)
	}
	return g, nil
}
