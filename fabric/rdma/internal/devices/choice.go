package devices

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/tunables"
)

// Choice is what the user demands of a port. The zero Choice demands nothing.
type Choice struct {
	// GIDIndex is the index of the local address in the GID table. If nil, it is chosen as
	// [verbs.Context.ChooseGID] does.
	GIDIndex *int
	// PKey is the key of the only InfiniBand partition to use, with or without the bit for full
	// membership; 0 means all.
	PKey int
	MTU  int // the most payload of a packet in bytes; 0: that of the port
}

// fitting returns the ports that have what is demanded: the partition, and the local address. The
// errors say what the others lack. If no port has it, all are returned, and the error of
// [Rail.Open] says why.
func (c Choice) fitting(all []Candidate) (fit []Candidate, unfit []error) {
	for i := range all {
		if err := c.Check(&all[i]); err != nil {
			unfit = append(unfit, err)
		} else {
			fit = append(fit, all[i])
		}
	}
	if len(fit) == 0 {
		return all, nil
	}
	return fit, unfit
}

// Check returns what a port lacks that is demanded. What package hw does not know is left to
// [Rail.Open].
func (c Choice) Check(at *Candidate) error {
	p := at.Port
	if c.GIDIndex != nil && len(p.GIDs) > 0 && c.namedGID(p) == nil {
		return &Error{Device: at.Device, Capability: "GID",
			Reason: fmt.Sprintf("port %d has none of index %d (%s)", p.Number, *c.GIDIndex, tunables.RDMAGIDIndex.Variable)}
	}
	if c.PKey != 0 && p.LinkLayer == hw.LinkInfiniBand && len(p.PKeys) > 0 && !slices.ContainsFunc(p.PKeys, c.allowsPartition) {
		return &Error{Device: at.Device, Capability: "partition",
			Reason: fmt.Sprintf("port %d is not in %#x (%s)", p.Number, c.PKey, tunables.RDMAPKey.Variable)}
	}
	return nil
}

// namedGID returns the address of a port that is demanded, nil if it has none of that index.
func (c Choice) namedGID(p *hw.RDMAPort) *hw.GID {
	if i := slices.IndexFunc(p.GIDs, func(g hw.GID) bool { return g.Index == *c.GIDIndex }); i >= 0 {
		return &p.GIDs[i]
	}
	return nil
}

// allowsPartition reports whether the partition of a key may be used. 0 is an empty entry of a
// table.
func (c Choice) allowsPartition(key uint16) bool {
	return key&^cm.FullMember != 0 && (c.PKey == 0 || key|cm.FullMember == uint16(c.PKey)|cm.FullMember)
}

// localGID returns the address that is used of a port.
func (c Choice) localGID(p *hw.RDMAPort) (hw.GID, error) {
	if c.GIDIndex != nil {
		if g := c.namedGID(p); g != nil {
			return *g, nil
		}
	}
	g, err := p.ChooseGID(hw.GIDRequest{})
	return g.GID, err
}
