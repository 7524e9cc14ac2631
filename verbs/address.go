package verbs

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
)

// Address is the information that a peer needs to connect to a queue pair. The program transfers the bytes of MarshalBinary to
// the peer, over any channel.
type Address struct {
	Type     QPType
	MTU      MTU        // the largest that the port supports
	RDAtomic uint8      // how many READs and atomic operations the pair executes at the same time
	LID      uint16     // InfiniBand only
	QPN, PSN uint32     // 24 bits each
	QKey     uint32     // UD only
	GID      netip.Addr // in 16-byte form; not valid on InfiniBand within a subnet
}

// The encoding of an Address: version, type, MTU, RDAtomic, LID (2), 2 zero, QPN, PSN, QKey (4 each), GID (16), CRC-32C (4);
// big-endian.
const (
	addressVersion = 1
	addressBytes   = 40
	max24          = 1<<24 - 1
)

// MarshalBinary returns the encoding of the address. It never fails.
func (a Address) MarshalBinary() ([]byte, error) {
	b := make([]byte, addressBytes)
	b[0], b[1], b[2], b[3] = addressVersion, uint8(a.Type), uint8(a.MTU), a.RDAtomic
	binary.BigEndian.PutUint16(b[4:], a.LID)
	binary.BigEndian.PutUint32(b[8:], a.QPN)
	binary.BigEndian.PutUint32(b[12:], a.PSN)
	binary.BigEndian.PutUint32(b[16:], a.QKey)
	gid := gidBytes(a.GID)
	copy(b[20:], gid[:])
	binary.BigEndian.PutUint32(b[36:], addressSum(b))
	return b, nil
}

// UnmarshalBinary decodes the bytes of MarshalBinary. It returns [ErrInvalid] for all others.
func (a *Address) UnmarshalBinary(b []byte) error {
	bad := func(detail string, args ...any) error {
		return &Error{Op: "decode a peer's address", Kind: ErrInvalid, Detail: fmt.Sprintf(detail, args...)}
	}
	switch {
	case len(b) > 0 && b[0] != addressVersion:
		return bad("version %d, want %d", b[0], addressVersion)
	case len(b) != addressBytes:
		return bad("%d bytes, want %d", len(b), addressBytes)
	case binary.BigEndian.Uint32(b[36:]) != addressSum(b) || b[6] != 0 || b[7] != 0:
		return bad("the checksum does not match")
	}
	got := Address{
		Type: QPType(b[1]), MTU: MTU(b[2]), RDAtomic: b[3], LID: binary.BigEndian.Uint16(b[4:]),
		QPN: binary.BigEndian.Uint32(b[8:]), PSN: binary.BigEndian.Uint32(b[12:]), QKey: binary.BigEndian.Uint32(b[16:]),
	}
	if gid := [16]byte(b[20:36]); gid != [16]byte{} {
		got.GID = netip.AddrFrom16(gid)
	}
	if got.Type != RC && got.Type != UC && got.Type != UD || got.MTU.Bytes() == 0 || got.QPN > max24 || got.PSN > max24 {
		return bad("type %v, MTU %v, queue pair %#x, packet sequence number %#x", got.Type, got.MTU, got.QPN, got.PSN)
	}
	*a = got
	return nil
}

func addressSum(b []byte) uint32 { return crc32.Checksum(b[:36], crc32.MakeTable(crc32.Castagnoli)) }

// gidBytes returns an address in its 16-byte form, all zero if it is not valid.
func gidBytes(a netip.Addr) [16]byte {
	if !a.IsValid() {
		return [16]byte{}
	}
	return a.As16()
}

// gidAddr is the inverse of gidBytes.
func gidAddr(b [16]byte) netip.Addr {
	if b == [16]byte{} {
		return netip.Addr{}
	}
	return netip.AddrFrom16(b)
}
