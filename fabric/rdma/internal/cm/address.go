package cm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// MaxRails keeps an address within the limit of [fabric.Domain], and a datagram of the connection
// manager within the smallest packet.
const MaxRails = 4

// Address is the address that a peer publishes. Integers are in little-endian order:
//
//	0   version      1 byte
//	1   rails        1 byte
//	2   incarnation  8 bytes: a random number of each domain, never 0
//	10  revision     2 bytes: increases when the network changes the rest; it wraps around
//	12  link         rate in megabits per second 4 bytes; flags 1 byte; length of the prefix of the IP network 1 byte
//	18  rails        see RailAddress
type Address struct {
	Incarnation uint64
	Revision    uint16
	Link        Link
	Rails       []RailAddress
}

// RailAddress is the address of a rail:
//
//	0   address     40 bytes: of its first UD queue pair, as encoded by package verbs
//	40  partitions  1 byte: how many
//	41  for each partition the key, 2 bytes; on the first rail then the numbers of two UD queue pairs, 4 bytes each
type RailAddress struct {
	verbs.Address
	N          uint8 // of partitions in use
	Partitions [MaxPartitions]Partition
}

// Partition is a partition of a peer, and on its first rail the queue pairs for datagrams in that
// partition.
type Partition struct {
	Key       uint16
	UD        uint32 // of the connection manager
	Responder uint32 // answers probes
}

const (
	version          = 7
	addressHead      = 18
	verbsAddress     = 40
	railAddressBytes = verbsAddress + 1 + MaxPartitions*2 // at most; the first rail has more
	udNumbersBytes   = 2 * 4
	maxAddressBytes  = addressHead + MaxPartitions*udNumbersBytes + MaxRails*railAddressBytes
)

// Keys returns the keys of the partitions.
func (r *RailAddress) Keys() []uint16 {
	keys := make([]uint16, r.N)
	for i := range keys {
		keys[i] = r.Partitions[i].Key
	}
	return keys
}

// Append appends the encoded address.
func (a *Address) Append(b []byte) []byte {
	b = append(b, version, byte(len(a.Rails)))
	b = binary.LittleEndian.AppendUint64(b, a.Incarnation)
	b = binary.LittleEndian.AppendUint16(b, a.Revision)
	b = binary.LittleEndian.AppendUint32(b, a.Link.Rate)
	b = append(b, a.Link.flags(), a.Link.PrefixBits)
	for i, r := range a.Rails {
		rail, _ := r.MarshalBinary() // never returns an error
		b = append(append(b, rail...), r.N)
		for _, p := range r.Partitions[:r.N] {
			b = binary.LittleEndian.AppendUint16(b, p.Key)
			if i == 0 {
				b = binary.LittleEndian.AppendUint32(b, p.UD)
				b = binary.LittleEndian.AppendUint32(b, p.Responder)
			}
		}
	}
	return b
}

// Revision returns the revision in an encoded address, which may be malformed.
func Revision(b []byte) (revision uint16, ok bool) {
	if len(b) < addressHead {
		return 0, false
	}
	return binary.LittleEndian.Uint16(b[10:]), true
}

// ParseAddress parses what Append returns.
func ParseAddress(b []byte) (a Address, err error) {
	if len(b) < addressHead || b[0] != version || b[1] == 0 || b[1] > MaxRails {
		return a, fmt.Errorf("%w: not an address: %x", fabric.ErrCorrupt, b)
	}
	if a.Incarnation = binary.LittleEndian.Uint64(b[2:]); a.Incarnation == 0 {
		return a, fmt.Errorf("%w: an address without an incarnation", fabric.ErrCorrupt)
	}
	a.Revision, _ = Revision(b)
	if b[16] >= linkFlags || b[17] > 128 {
		return Address{}, fmt.Errorf("%w: an address with flags %#x and a prefix of %d bits", fabric.ErrCorrupt, b[16], b[17])
	}
	a.Link = Link{binary.LittleEndian.Uint32(b[12:]), b[16]&linkPreferred != 0, b[16]&linkNear != 0, b[17]}
	a.Rails = make([]RailAddress, b[1])
	rest := b[addressHead:]
	for i := range a.Rails {
		if rest, err = a.Rails[i].parse(rest, i == 0); err != nil {
			return Address{}, fmt.Errorf("%w: rail %d: %w", fabric.ErrCorrupt, i, err)
		}
	}
	if len(rest) > 0 {
		return Address{}, fmt.Errorf("%w: an address with %d superfluous bytes", fabric.ErrCorrupt, len(rest))
	}
	return a, nil
}

// parse parses the address of a rail, and returns what follows it.
func (r *RailAddress) parse(b []byte, first bool) (rest []byte, err error) {
	if len(b) <= verbsAddress || b[verbsAddress] == 0 || b[verbsAddress] > MaxPartitions {
		return nil, errors.New("the list of partitions is not complete")
	}
	if err := r.UnmarshalBinary(b[:verbsAddress]); err != nil {
		return nil, err
	}
	if r.Type != verbs.UD {
		return nil, errors.New("the queue pair is not for datagrams")
	}
	r.N, rest = b[verbsAddress], b[verbsAddress+1:]
	each := 2
	if first {
		each += udNumbersBytes
	}
	if len(rest) < each*int(r.N) {
		return nil, errors.New("the list of partitions is not complete")
	}
	for i := range r.Partitions[:r.N] {
		p := &r.Partitions[i]
		p.Key = binary.LittleEndian.Uint16(rest)
		if first {
			p.UD, p.Responder = binary.LittleEndian.Uint32(rest[2:]), binary.LittleEndian.Uint32(rest[6:])
		}
		if rest = rest[each:]; p.Key&^FullMember == 0 {
			return nil, fmt.Errorf("%#x is not the key of a partition", p.Key)
		}
	}
	return rest, nil
}

// Datagrams returns the address of the queue pairs for datagrams of a peer in one of its
// partitions.
func (r *RailAddress) Datagrams(partition int) (a Datagrams) {
	p := &r.Partitions[partition]
	a.At, a.Responder = r.Address, p.Responder
	a.At.QPN = p.UD
	return a
}

// Datagrams is the address of a peer's queue pairs for datagrams.
type Datagrams struct {
	At        verbs.Address
	Responder uint32 // number of the queue pair that answers probes
}
