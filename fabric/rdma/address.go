package rdma

import (
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// maxRails keeps an address within what the seam allows, and a datagram within the smallest packet.
const maxRails = 4

// address is what a peer publishes:
//
//	0   version      1 byte
//	1   rails        1 byte
//	2   incarnation  8 bytes, little-endian: drawn anew by every domain, never 0
//	10  for each rail the address of the queue pair for datagrams, as package verbs has it
type address struct {
	incarnation uint64
	rails       []verbs.Address
}

const (
	version          = 1
	addressHead      = 10
	railAddressBytes = 40
	maxAddressBytes  = addressHead + maxRails*railAddressBytes
)

func (a *address) append(b []byte) []byte {
	b = append(b, version, byte(len(a.rails)))
	b = binary.LittleEndian.AppendUint64(b, a.incarnation)
	for _, r := range a.rails {
		rail, _ := r.MarshalBinary() // does not fail
		b = append(b, rail...)
	}
	return b
}

// parseAddress is append undone.
func parseAddress(b []byte) (a address, err error) {
	if len(b) < addressHead || b[0] != version || b[1] == 0 || b[1] > maxRails ||
		len(b) != addressHead+int(b[1])*railAddressBytes {
		return a, fmt.Errorf("%w: not an address: %x", fabric.ErrCorrupt, b)
	}
	if a.incarnation = binary.LittleEndian.Uint64(b[2:]); a.incarnation == 0 {
		return a, fmt.Errorf("%w: an address without an incarnation", fabric.ErrCorrupt)
	}
	a.rails = make([]verbs.Address, b[1])
	for i := range a.rails {
		if err := a.rails[i].UnmarshalBinary(b[addressHead+i*railAddressBytes:][:railAddressBytes]); err != nil {
			return address{}, fmt.Errorf("%w: rail %d: %w", fabric.ErrCorrupt, i, err)
		}
		if a.rails[i].Type != verbs.UD {
			return address{}, fmt.Errorf("%w: rail %d has no queue pair for datagrams", fabric.ErrCorrupt, i)
		}
	}
	return a, nil
}
