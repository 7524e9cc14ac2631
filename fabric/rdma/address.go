package rdma

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// maxRails keeps an address within the limit of [fabric.Domain], and a datagram of the connection manager within the smallest
// packet.
const maxRails = 4

// address is the address that a peer publishes:
//
//	0   version      1 byte
//	1   rails        1 byte
//	2   incarnation  8 bytes, little-endian: a random number of each domain, never 0
//	10  responder    4 bytes, little-endian: number of the queue pair on the first rail that answers probes
//	14  link        rate in megabits per second 4 bytes, little-endian; flags 1 byte; length of the prefix of the IP network 1 byte
//	20  for each rail the address of its UD queue pair, as encoded by package verbs
type address struct {
	incarnation uint64
	responder   uint32
	link        linkInfo
	rails       []verbs.Address
}

const (
	version          = 3
	addressHead      = 20
	railAddressBytes = 40
	maxAddressBytes  = addressHead + maxRails*railAddressBytes
)

func (a *address) append(b []byte) []byte {
	b = append(b, version, byte(len(a.rails)))
	b = binary.LittleEndian.AppendUint64(b, a.incarnation)
	b = binary.LittleEndian.AppendUint32(b, a.responder)
	b = binary.LittleEndian.AppendUint32(b, a.link.rate)
	b = append(b, a.link.flags(), a.link.prefixBits)
	for _, r := range a.rails {
		rail, _ := r.MarshalBinary() // never returns an error
		b = append(b, rail...)
	}
	return b
}

// parseAddress parses what append returns.
func parseAddress(b []byte) (a address, err error) {
	if len(b) < addressHead || b[0] != version || b[1] == 0 || b[1] > maxRails ||
		len(b) != addressHead+int(b[1])*railAddressBytes {
		return a, fmt.Errorf("%w: not an address: %x", fabric.ErrCorrupt, b)
	}
	if a.incarnation = binary.LittleEndian.Uint64(b[2:]); a.incarnation == 0 {
		return a, fmt.Errorf("%w: an address without an incarnation", fabric.ErrCorrupt)
	}
	a.responder = binary.LittleEndian.Uint32(b[10:])
	if b[18] >= linkFlags || b[19] > 128 {
		return address{}, fmt.Errorf("%w: an address with flags %#x and a prefix of %d bits", fabric.ErrCorrupt, b[18], b[19])
	}
	a.link = linkInfo{binary.LittleEndian.Uint32(b[14:]), b[18]&linkPreferred != 0, b[18]&linkNear != 0, b[19]}
	a.rails = make([]verbs.Address, b[1])
	for i := range a.rails {
		if err := a.rails[i].UnmarshalBinary(b[addressHead+i*railAddressBytes:][:railAddressBytes]); err != nil {
			return address{}, fmt.Errorf("%w: rail %d: %w", fabric.ErrCorrupt, i, err)
		}
		if a.rails[i].Type != verbs.UD {
			return address{}, fmt.Errorf("%w: the queue pair of rail %d is not for datagrams", fabric.ErrCorrupt, i)
		}
	}
	return a, nil
}
