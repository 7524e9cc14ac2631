package devices

import "github.com/ibrun/ibrun/fabric/rdma/internal/cm"

// Rails are the rails of a domain, in the order of their numbers.
type Rails []*Rail

// CheckPaths returns an error if the rails of a peer cannot be reached from these. It may be a
// [*PartitionError].
func (rails Rails) CheckPaths(peer *cm.Address) error {
	for i := range min(len(rails), len(peer.Rails)) {
		if err := rails[i].checkPath(&peer.Rails[i]); err != nil {
			return err
		}
	}
	return nil
}

// MaxRegion returns the longest memory that the devices of all rails register.
func (rails Rails) MaxRegion() int {
	least := rails[0].MaxRegion
	for _, r := range rails[1:] {
		least = min(least, r.MaxRegion)
	}
	return least
}

// Refresh queries what the network may change of all ports, and reports what has changed on any of
// them. Indices is that of the first rail: others have no queue pairs for datagrams to restart.
func (rails Rails) Refresh() (all Change) {
	for i, r := range rails {
		c := r.refresh()
		all.Any, all.Moved = all.Any || c.Any, all.Moved || c.Moved
		all.Indices = all.Indices || c.Indices && i == 0
	}
	return all
}
