package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
)

// Reach reports how much this domain is preferred for a peer that has a domain with this address, if both processes have several
// domains: the higher the better. Both ends get the same number. The error says why the two domains do not reach each other.
func (d *domain) Reach(addr []byte) (uint64, error) {
	a, err := cm.ParseAddress(addr)
	if err != nil {
		return 0, fmt.Errorf("fabric/rdma: %w", err)
	}
	if err := exported(d.cm.CheckPaths(&a)); err != nil {
		return 0, err
	}
	return cm.Preference(d.cm.Link, d.rails[0].Address, &a), nil
}
