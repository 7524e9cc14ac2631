package verbs

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// GIDs asks for the GID table of a port, without its empty entries.
func (c *Context) GIDs(port int) ([]hw.GID, error) {
	const op = "query the GID table"
	if err := c.enter(op); err != nil {
		return nil, err
	}
	defer c.leave()
	if err := c.checkPort(op, port); err != nil {
		return nil, err
	}
	p, err := c.hwPort(port)
	return slices.Clone(p.GIDs), c.fail(op, err)
}

// ChooseGID picks the address under which a port is reached, by the rule of [hw.RDMAPort.ChooseGID]: RoCE v2, an address of
// this network namespace, IPv4 before IPv6. If want is valid it must be the address that is chosen, such as 192.168.7.1 or
// fe80::1. The error is [ErrInvalid] and names all entries of the table.
func (c *Context) ChooseGID(port int, want netip.Addr) (hw.GID, error) {
	const op = "choose a GID"
	if err := c.enter(op); err != nil {
		return hw.GID{}, err
	}
	defer c.leave()
	if err := c.checkPort(op, port); err != nil {
		return hw.GID{}, err
	}
	p, err := c.hwPort(port)
	if err != nil {
		return hw.GID{}, c.fail(op, err)
	}
	if want.IsValid() {
		all := p.GIDs
		p.GIDs = slices.DeleteFunc(slices.Clone(all), func(g hw.GID) bool { return g.Addr.Unmap() != want.Unmap() })
		if len(p.GIDs) == 0 {
			return hw.GID{}, c.refuse(op, ErrInvalid, "port %d has no GID %v, only %v", port, want, all)
		}
	}
	choice, err := p.ChooseGID(hw.GIDWish{})
	if err != nil {
		return hw.GID{}, &Error{Op: op, Device: c.name, Kind: ErrInvalid, Err: err}
	}
	return choice.GID, nil
}

// hwPort returns a port as hw describes it, with the GID table as it is now. The table comes from the device, since reading
// it from sysfs takes a thousand files; what else is known of its entries is read only when they changed.
func (c *Context) hwPort(port int) (hw.RDMAPort, error) {
	c.hwMu.Lock()
	defer c.hwMu.Unlock()
	now, err := c.ib.QueryGIDs()
	switch {
	case kindOf(err) == ErrNotSupported: // before Linux 5.10
		err = c.readDevice()
	case err != nil:
	case !c.describes(now):
		if err = c.readDevice(); err == nil && !c.describes(now) {
			c.describe(now)
		}
	}
	if err != nil {
		return hw.RDMAPort{}, err
	}
	for _, p := range c.device.Ports {
		if p.Number == port {
			return p, nil
		}
	}
	return hw.RDMAPort{}, errors.New("sysfs does not know the port")
}

// describes tells whether the entries are those that are known.
func (c *Context) describes(now []ib.GID) bool {
	n := 0
	for _, p := range c.device.Ports {
		n += len(p.GIDs)
	}
	return n == len(now) && !slices.ContainsFunc(now, func(g ib.GID) bool { return c.find(g) == nil })
}

// find returns what is known of an entry, or nil.
func (c *Context) find(g ib.GID) *hw.GID {
	for _, p := range c.device.Ports {
		if p.Number != int(g.Port) {
			continue
		}
		for i := range p.GIDs {
			if k := &p.GIDs[i]; k.Index == int(g.Index) && k.Addr == netip.AddrFrom16(g.GID) {
				return k
			}
		}
	}
	return nil
}

// readDevice reads the device anew. One that hw does not see, because it is played back, stays as it is.
func (c *Context) readDevice() error {
	list, err := hw.LocalRDMA()
	if err != nil {
		return err
	}
	for _, d := range list {
		if d.Name == c.name {
			c.device = d
		}
	}
	return nil
}

// describe takes the entries from the device alone, where hw sees others than the device says: the table changes right now,
// or the device is played back.
func (c *Context) describe(now []ib.GID) {
	for i := range c.device.Ports {
		p := &c.device.Ports[i]
		var gids []hw.GID
		for _, g := range now {
			if int(g.Port) != p.Number {
				continue
			}
			entry := hw.GID{Index: int(g.Index), Addr: netip.AddrFrom16(g.GID), Type: gidType(g.Type), Netdev: p.Netdev}
			if k := c.find(g); k != nil {
				entry = *k
			}
			gids = append(gids, entry)
		}
		p.GIDs = gids
	}
}

func gidType(t uint32) hw.GIDType {
	switch uverbs.GIDType(t) {
	case uverbs.GIDTypeRoCEv1:
		return hw.GIDRoCEv1
	case uverbs.GIDTypeRoCEv2:
		return hw.GIDRoCEv2
	}
	return hw.GIDInfiniBand
}
