package rdma

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// maxRails keeps an address within the limit of [fabric.Domain], and a datagram of the connection manager within the smallest
// packet.
const maxRails = 4

// address is the address that a peer publishes. Integers are in little-endian order:
//
//	0   version      1 byte
//	1   rails        1 byte
//	2   incarnation  8 bytes: a random number of each domain, never 0
//	10  revision     2 bytes: increases when the network changes the rest; it wraps around
//	12  link         rate in megabits per second 4 bytes; flags 1 byte; length of the prefix of the IP network 1 byte
//	18  rails        see railAddress
type address struct {
	incarnation uint64
	revision    uint16
	link        linkInfo
	rails       []railAddress
}

// railAddress is the address of a rail:
//
//	0   address     40 bytes: of its first UD queue pair, as encoded by package verbs
//	40  partitions  1 byte: how many
//	41  for each partition the key, 2 bytes; on the first rail then the numbers of two UD queue pairs, 4 bytes each
type railAddress struct {
	verbs.Address
	n          uint8 // of partitions in use
	partitions [maxPartitions]peerPartition
}

// peerPartition is a partition of a peer, and on its first rail the queue pairs for datagrams in that partition.
type peerPartition struct {
	key       uint16
	ud        uint32 // of the connection manager
	responder uint32 // answers probes
}

const (
	version          = 7
	addressHead      = 18
	verbsAddress     = 40
	railAddressBytes = verbsAddress + 1 + maxPartitions*2 // at most; the first rail has more
	udNumbersBytes   = 2 * 4
	maxAddressBytes  = addressHead + maxPartitions*udNumbersBytes + maxRails*railAddressBytes
)

// keys returns the keys of the partitions.
func (r *railAddress) keys() []uint16 {
	keys := make([]uint16, r.n)
	for i := range keys {
		keys[i] = r.partitions[i].key
	}
	return keys
}

func (a *address) append(b []byte) []byte {
	b = append(b, version, byte(len(a.rails)))
	b = binary.LittleEndian.AppendUint64(b, a.incarnation)
	b = binary.LittleEndian.AppendUint16(b, a.revision)
	b = binary.LittleEndian.AppendUint32(b, a.link.rate)
	b = append(b, a.link.flags(), a.link.prefixBits)
	for i, r := range a.rails {
		rail, _ := r.MarshalBinary() // never returns an error
		b = append(append(b, rail...), r.n)
		for _, p := range r.partitions[:r.n] {
			b = binary.LittleEndian.AppendUint16(b, p.key)
			if i == 0 {
				b = binary.LittleEndian.AppendUint32(b, p.ud)
				b = binary.LittleEndian.AppendUint32(b, p.responder)
			}
		}
	}
	return b
}

// addressRevision returns the revision in an encoded address, which may be malformed.
func addressRevision(b []byte) (revision uint16, ok bool) {
	if len(b) < addressHead {
		return 0, false
	}
	return binary.LittleEndian.Uint16(b[10:]), true
}

// parseAddress parses what append returns.
func parseAddress(b []byte) (a address, err error) {
	if len(b) < addressHead || b[0] != version || b[1] == 0 || b[1] > maxRails {
		return a, fmt.Errorf("%w: not an address: %x", fabric.ErrCorrupt, b)
	}
	if a.incarnation = binary.LittleEndian.Uint64(b[2:]); a.incarnation == 0 {
		return a, fmt.Errorf("%w: an address without an incarnation", fabric.ErrCorrupt)
	}
	a.revision, _ = addressRevision(b)
	if b[16] >= linkFlags || b[17] > 128 {
		return address{}, fmt.Errorf("%w: an address with flags %#x and a prefix of %d bits", fabric.ErrCorrupt, b[16], b[17])
	}
	a.link = linkInfo{binary.LittleEndian.Uint32(b[12:]), b[16]&linkPreferred != 0, b[16]&linkNear != 0, b[17]}
	a.rails = make([]railAddress, b[1])
	rest := b[addressHead:]
	for i := range a.rails {
		if rest, err = a.rails[i].parse(rest, i == 0); err != nil {
			return address{}, fmt.Errorf("%w: rail %d: %w", fabric.ErrCorrupt, i, err)
		}
	}
	if len(rest) > 0 {
		return address{}, fmt.Errorf("%w: an address with %d superfluous bytes", fabric.ErrCorrupt, len(rest))
	}
	return a, nil
}

// parse parses the address of a rail, and returns what follows it.
func (r *railAddress) parse(b []byte, first bool) (rest []byte, err error) {
	if len(b) <= verbsAddress || b[verbsAddress] == 0 || b[verbsAddress] > maxPartitions {
		return nil, errors.New("the list of partitions is not complete")
	}
	if err := r.UnmarshalBinary(b[:verbsAddress]); err != nil {
		return nil, err
	}
	if r.Type != verbs.UD {
		return nil, errors.New("the queue pair is not for datagrams")
	}
	r.n, rest = b[verbsAddress], b[verbsAddress+1:]
	each := 2
	if first {
		each += udNumbersBytes
	}
	if len(rest) < each*int(r.n) {
		return nil, errors.New("the list of partitions is not complete")
	}
	for i := range r.partitions[:r.n] {
		p := &r.partitions[i]
		p.key = binary.LittleEndian.Uint16(rest)
		if first {
			p.ud, p.responder = binary.LittleEndian.Uint32(rest[2:]), binary.LittleEndian.Uint32(rest[6:])
		}
		if rest = rest[each:]; p.key&^fullMember == 0 {
			return nil, fmt.Errorf("%#x is not the key of a partition", p.key)
		}
	}
	return rest, nil
}
