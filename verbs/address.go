package verbs

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"

	"github.com/ibrun/ibrun/hw"
)

// Address is the information that a peer needs to connect to a queue pair. The program transfers the bytes of MarshalBinary to
// the peer, over any channel.
type Address struct {
	Type     QPType
	MTU      MTU        // the largest that the port supports
	RDAtomic uint8      // how many READs and atomic operations the pair executes at the same time
	LID      uint16     // the first of the port; InfiniBand only, as are the next two
	LMC      uint8      // the port has 2^LMC LIDs, at most 128
	NeedsGRH bool       // packets to the port must have a global route header: see PortAttr.GRHRequired
	QPN, PSN uint32     // 24 bits each
	QKey     uint32     // UD only
	GID      netip.Addr // in 16-byte form; not valid if it is unknown, on InfiniBand
	GIDType  hw.GIDType // of the GID; empty if it is unknown
}

// The encoding of an Address: version, type, MTU, RDAtomic, LID (2), kind, zero, QPN, PSN, QKey (4 each), GID (16), CRC-32C (4);
// big-endian. The bits of kind: 0-2 LMC, 3 NeedsGRH, 4-5 the index of GIDType in addressGIDTypes.
const (
	addressVersion = 2
	addressBytes   = 40
	max24          = 1<<24 - 1
	maxLMC         = 7
)

var addressGIDTypes = [...]hw.GIDType{"", hw.GIDInfiniBand, hw.GIDRoCEv1, hw.GIDRoCEv2}

// MarshalBinary returns the encoding of the address. It never fails.
func (a Address) MarshalBinary() ([]byte, error) {
	b := make([]byte, addressBytes)
	b[0], b[1], b[2], b[3] = addressVersion, uint8(a.Type), uint8(a.MTU), a.RDAtomic
	binary.BigEndian.PutUint16(b[4:], a.LID)
	b[6] = a.LMC&maxLMC | byte(max(0, slices.Index(addressGIDTypes[:], a.GIDType)))<<4
	if a.NeedsGRH {
		b[6] |= 1 << 3
	}
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
	case binary.BigEndian.Uint32(b[36:]) != addressSum(b) || b[6]>>6 != 0 || b[7] != 0:
		return bad("the checksum does not match")
	}
	got := Address{
		Type: QPType(b[1]), MTU: MTU(b[2]), RDAtomic: b[3], LID: binary.BigEndian.Uint16(b[4:]),
		LMC: b[6] & maxLMC, NeedsGRH: b[6]>>3&1 != 0, GIDType: addressGIDTypes[b[6]>>4&3],
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

// family returns the family of the GID, empty if it is unknown.
func (a *Address) family() hw.Family {
	if !a.GID.IsValid() {
		return ""
	}
	return hw.GID{Addr: a.GID, Type: a.GIDType}.Family()
}

// isInfiniBand reports whether the port is one of an InfiniBand network. Addresses that other programs have made have no type.
func (a *Address) isInfiniBand() bool {
	return a.GIDType == hw.GIDInfiniBand || a.GIDType == "" && a.LID != 0
}

// String returns the network address: RoCE v2 ::ffff:10.0.0.1, or InfiniBand LID 5 fe80::1.
func (a *Address) String() string {
	if !a.isInfiniBand() {
		return fmt.Sprintf("%s %v", a.GIDType, a.GID)
	}
	if a.LMC > 0 {
		return fmt.Sprintf("InfiniBand LID %d to %d %v", a.LID, int(a.LID)+1<<a.LMC-1, a.GID)
	}
	return fmt.Sprintf("InfiniBand LID %d %v", a.LID, a.GID)
}

// CheckPath returns an error if packets cannot travel between the ports of two addresses, whatever the network between them:
// their link layers, the types or the families of their GIDs differ, or their InfiniBand subnets, one of which is link-local.
// The error is of the kind [ErrInvalid] and names both addresses. CheckPath gives the same result at both ends.
func (a Address) CheckPath(peer Address) error {
	var why string
	switch known := a.GIDType != "" && peer.GIDType != ""; {
	case a.isInfiniBand() != peer.isInfiniBand() && known:
		why = "one is InfiniBand, the other is not"
	case known && a.GIDType != peer.GIDType:
		why = "their GIDs are of different types; see QPConfig.GIDIndex"
	case !a.isInfiniBand() && known && a.family() != peer.family():
		why = fmt.Sprintf("one is %s, the other %s; they must be of the same family, see QPConfig.GID", a.family(), peer.family())
	case a.isInfiniBand() && !samePrefix(a.GID, peer.GID) && (isLinkLocal(a.GID) || isLinkLocal(peer.GID)):
		why = "they are in different subnets, and a link-local address cannot be routed"
	default:
		return nil
	}
	return &Error{Op: "find a path", Kind: ErrInvalid, Detail: fmt.Sprintf("from %v to %v: %s", &a, &peer, why)}
}

// samePrefix reports whether two InfiniBand ports are in the same subnet, or the GID of one of them is unknown.
func samePrefix(a, b netip.Addr) bool {
	x, y := gidBytes(a), gidBytes(b)
	return !a.IsValid() || !b.IsValid() || [8]byte(x[:8]) == [8]byte(y[:8])
}

// isLinkLocal reports whether a GID is valid within its subnet only.
func isLinkLocal(a netip.Addr) bool { return a.IsLinkLocalUnicast() }
