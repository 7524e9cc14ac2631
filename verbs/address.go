package verbs

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
)

// Address is what a peer has to know of a queue pair to connect to it. It travels as the bytes of MarshalBinary, in any way the
// program likes.
type Address struct {
	Type     QPType
	MTU      MTU        // that the port can do
	RDAtomic uint8      // how many READs and atomics the pair answers at the same time
	LID      uint16     // InfiniBand only
	QPN, PSN uint32     // 24 bits each
	QKey     uint32     // of UD
	GID      netip.Addr // in 16-byte form; not valid on InfiniBand within a subnet
}

// An address in bytes: version, type, MTU, RDAtomic, LID (2), 2 zero, QPN, PSN, QKey (4 each), GID (16), CRC-32C (4);
// big-endian.
const (
	addressVersion = 1
	addressBytes   = 40
	most24         = 1<<24 - 1
)

// MarshalBinary returns the bytes. It does not fail.
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

// UnmarshalBinary takes the bytes of MarshalBinary, and refuses all others as [ErrInvalid].
func (a *Address) UnmarshalBinary(b []byte) error {
	bad := func(detail string, args ...any) error {
		return &Error{Op: "read a peer's address", Kind: ErrInvalid, Detail: fmt.Sprintf(detail, args...)}
	}
	switch {
	case len(b) > 0 && b[0] != addressVersion:
		return bad("it is of version %d, not %d", b[0], addressVersion)
	case len(b) != addressBytes:
		return bad("it has %d bytes, not %d", len(b), addressBytes)
	case binary.BigEndian.Uint32(b[36:]) != addressSum(b) || b[6] != 0 || b[7] != 0:
		return bad("it was damaged on its way")
	}
	got := Address{
		Type: QPType(b[1]), MTU: MTU(b[2]), RDAtomic: b[3], LID: binary.BigEndian.Uint16(b[4:]),
		QPN: binary.BigEndian.Uint32(b[8:]), PSN: binary.BigEndian.Uint32(b[12:]), QKey: binary.BigEndian.Uint32(b[16:]),
	}
	if gid := [16]byte(b[20:36]); gid != [16]byte{} {
		got.GID = netip.AddrFrom16(gid)
	}
	if got.Type != RC && got.Type != UC && got.Type != UD || got.MTU.Bytes() == 0 || got.QPN > most24 || got.PSN > most24 {
		return bad("%v, MTU %v, queue pair %#x, packet number %#x", got.Type, got.MTU, got.QPN, got.PSN)
	}
	*a = got
	return nil
}

func addressSum(b []byte) uint32 { return crc32.Checksum(b[:36], crc32.MakeTable(crc32.Castagnoli)) }

// gidBytes is an address in its 16-byte form, all zero for one that is not valid.
func gidBytes(a netip.Addr) [16]byte {
	if !a.IsValid() {
		return [16]byte{}
	}
	return a.As16()
}

func gidAddr(b [16]byte) netip.Addr {
	if b == [16]byte{} {
		return netip.Addr{}
	}
	return netip.AddrFrom16(b)
}
