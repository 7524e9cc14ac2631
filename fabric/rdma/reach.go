package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/hw"
)

// link returns the properties of a candidate. The zero candidate means that the user has named the devices.
func (c *candidate) link() cm.Link {
	if c.port == nil {
		return cm.Link{Preferred: true, Near: true}
	}
	l := cm.Link{Rate: uint32(min(c.port.Rate/1e6, 1<<32-1)), Preferred: c.preferred, Near: c.near > 0}
	if p := c.subnet.prefix; p.IsValid() && c.port.LinkLayer != hw.LinkInfiniBand {
		l.PrefixBits = uint8(p.Bits())
		if p.Addr().Is4() {
			l.PrefixBits += 128 - 32
		}
	}
	return l
}

// Reach reports how much this domain is preferred for a peer that has a domain with this address, if both processes have several
// domains: the higher the better. Both ends get the same number. The error says why the two domains do not reach each other.
func (d *domain) Reach(addr []byte) (uint64, error) {
	a, err := cm.ParseAddress(addr)
	if err != nil {
		return 0, fmt.Errorf("fabric/rdma: %w", err)
	}
	if err := d.checkReachable(a); err != nil {
		return 0, err
	}
	return cm.Preference(d.link, d.rails[0].address, &a), nil
}
