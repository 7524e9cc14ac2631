package cm

import "slices"

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

// Offers reports whether a lane is among those of a REQ or a REP.
func Offers(qps []QP, l Lane) bool {
	return slices.ContainsFunc(qps, func(p QP) bool { return p.Lane == l })
}
