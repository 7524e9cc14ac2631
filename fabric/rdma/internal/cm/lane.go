package cm

import (
	"encoding/binary"
	"slices"

	"github.com/ibrun/ibrun/verbs"
)

// Lane says which rail and which path a queue pair of a connection uses. The zero lane carries the
// messages.
type Lane struct{ Rail, Path uint8 }

// MaxLanes is how many lanes a connection has at most.
const MaxLanes = 8

// LaneSet is a set of lanes, as bits.
type LaneSet uint32

// Has reports whether a lane is in the set.
func (s LaneSet) Has(l Lane) bool { return s&l.Bit() != 0 }

// Bit returns the set of the lane alone.
func (l Lane) Bit() LaneSet { return 1 << (MaxLanes*l.Rail + l.Path) }

// OfRail returns all lanes of a rail.
func OfRail(rail uint8) LaneSet { return (1<<MaxLanes - 1) << (MaxLanes * rail) }

// WithoutRails returns the set without the lanes of rails, which are given as bits.
func (s LaneSet) WithoutRails(rails uint8) LaneSet {
	for i := range uint8(MaxRails) {
		if rails&(1<<i) != 0 {
			s &^= OfRail(i)
		}
	}
	return s
}

// QP is what a peer has to know about a queue pair in addition to the address of its rail.
type QP struct {
	QPN, PSN uint32 // 24 bits each
	Lane     Lane
}

// At returns the address of a peer's queue pair, given that of its rail.
func (p *QP) At(rail verbs.Address) verbs.Address {
	rail.Type, rail.QPN, rail.PSN, rail.QKey = verbs.RC, p.QPN, p.PSN, 0
	return rail
}

// append appends the encoded queue pair.
func (p *QP) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, p.QPN&maxQPN|uint32(p.Lane.Rail)<<24|uint32(p.Lane.Path)<<28)
	return binary.LittleEndian.AppendUint32(b, p.PSN)
}

// maxQPN is the highest number that a queue pair can have.
const maxQPN = 1<<24 - 1

// parseQP parses what append returns. Rail and path may be out of range.
func parseQP(b []byte) QP {
	w := binary.LittleEndian.Uint32(b)
	return QP{w & maxQPN, binary.LittleEndian.Uint32(b[4:]), Lane{uint8(w >> 24 & 15), uint8(w >> 28)}}
}

// Offers reports whether a lane is among those of a REQ or a REP.
func Offers(qps []QP, l Lane) bool {
	return slices.ContainsFunc(qps, func(p QP) bool { return p.Lane == l })
}

// A REQ lists the lanes of its sender. The REP lists those of them that the other side has too, and
// only these are connected. So each side leaves out what does not work. Only the first lane cannot
// be left out.

// Lanes returns the lanes of the next connection over so many rails, each with so many paths: those
// of the first rail first. If the peer has sent a REQ, offered has its lanes; the result has no
// others. leftOut reports whether a lane other than the first is left out.
func Lanes(rails, paths int, offered []QP, leftOut func(Lane) bool) (list []Lane) {
	for rail := range rails {
		for path := range paths {
			l := Lane{Rail: uint8(rail), Path: uint8(path)}
			if l != (Lane{}) && leftOut(l) || offered != nil && !Offers(offered, l) {
				continue
			}
			list = append(list, l)
		}
	}
	return list
}
