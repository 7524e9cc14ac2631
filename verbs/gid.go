package verbs

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// GIDs returns the GID table of a port, without its empty entries.
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

// ChooseGID returns the GID by which peers reach a port, as [hw.RDMAPort.ChooseGID] chooses it: RoCE v2, an address of this
// network namespace, IPv4 before IPv6. If want is valid, such as 192.168.7.1 or fe80::1, the GID must have that address. The
// error is [ErrInvalid] and contains all entries of the table.
func (c *Context) ChooseGID(port int, want netip.Addr) (hw.GID, error) {
	return c.chooseGID(port, want, nil)
}

// chooseGID is ChooseGID, or returns the entry that findIndexed finds.
func (c *Context) chooseGID(port int, want netip.Addr, index *int) (hw.GID, error) {
	epoch := c.ports.now()
	g, err := c.queryChosenGID(port, want, index)
	if err == nil {
		c.ports.storeGID(epoch, newGIDChoice(port, want, index), g)
	}
	return g, err
}

// queryChosenGID is chooseGID without the cache.
func (c *Context) queryChosenGID(port int, want netip.Addr, index *int) (hw.GID, error) {
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
	if index != nil {
		if i := findIndexed(p.GIDs, *index, want); i >= 0 {
			return p.GIDs[i], nil
		}
		return hw.GID{}, c.refuse(op, ErrInvalid, "port %d has no GID with the index %d; it has %v", port, *index, p.GIDs)
	}
	if want.IsValid() {
		all := p.GIDs
		p.GIDs = slices.DeleteFunc(slices.Clone(all), func(g hw.GID) bool { return g.Addr.Unmap() != want.Unmap() })
		if len(p.GIDs) == 0 {
			return hw.GID{}, c.refuse(op, ErrInvalid, "port %d has no GID %v; it has %v", port, want, all)
		}
	}
	choice, err := p.ChooseGID(hw.GIDRequest{})
	if err != nil {
		return hw.GID{}, &Error{Op: op, Device: c.name, Kind: ErrInvalid, Err: err}
	}
	return choice.GID, nil
}

// findIndexed returns the position of the entry with an index, -1 if there is none. If want is valid and that entry has not this
// address, but another one for RoCE v2 has, it returns the position of that.
func findIndexed(gids []hw.GID, index int, want netip.Addr) int {
	i := slices.IndexFunc(gids, func(g hw.GID) bool { return g.Index == index })
	if !want.IsValid() || i >= 0 && gids[i].Addr.Unmap() == want.Unmap() {
		return i
	}
	j := slices.IndexFunc(gids, func(g hw.GID) bool { return g.Addr.Unmap() == want.Unmap() && g.Type == hw.GIDRoCEv2 })
	if j >= 0 {
		return j
	}
	return i
}

// hwPort returns a port as hw describes it, with the current GID table. The table is queried from the device, because in sysfs it
// is a thousand files. The other attributes of its entries are read from sysfs only if the entries have changed.
func (c *Context) hwPort(port int) (hw.RDMAPort, error) {
	c.hwMu.Lock()
	defer c.hwMu.Unlock()
	now, err := c.ib.QueryGIDs()
	switch {
	case kindOf(err) == ErrNotSupported: // before Linux 5.10
		err = c.readDevice()
	case err != nil:
	case !c.hasGIDs(now):
		if err = c.readDevice(); err == nil && !c.hasGIDs(now) {
			c.setGIDs(now)
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
	return hw.RDMAPort{}, errors.New("the port is not in sysfs")
}

// hasGIDs reports whether the entries are those in c.device. The caller must hold hwMu.
func (c *Context) hasGIDs(now []ib.GID) bool {
	n := 0
	for _, p := range c.device.Ports {
		n += len(p.GIDs)
	}
	return n == len(now) && !slices.ContainsFunc(now, func(g ib.GID) bool { return c.findGID(g) == nil })
}

// findGID returns the entry of c.device for an entry of the device's table, or nil. The caller must hold hwMu.
func (c *Context) findGID(g ib.GID) *hw.GID {
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

// readDevice reads c.device again. A device that hw does not find, because it is simulated, stays unchanged. The caller must
// hold hwMu.
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

// setGIDs stores the entries in c.device without the attributes of sysfs. It is called if the table in sysfs differs from that of
// the device: because the table is changing, or because the device is simulated. The caller must hold hwMu.
func (c *Context) setGIDs(now []ib.GID) {
	for i := range c.device.Ports {
		p := &c.device.Ports[i]
		var gids []hw.GID
		for _, g := range now {
			if int(g.Port) != p.Number {
				continue
			}
			entry := hw.GID{Index: int(g.Index), Addr: netip.AddrFrom16(g.GID), Type: gidType(g.Type), Netdev: p.Netdev}
			if k := c.findGID(g); k != nil {
				entry = *k
			}
			gids = append(gids, entry)
		}
		p.GIDs = gids
	}
}

// gidType converts a type of the kernel.
func gidType(t uint32) hw.GIDType {
	switch uverbs.GIDType(t) {
	case uverbs.GIDTypeRoCEv1:
		return hw.GIDRoCEv1
	case uverbs.GIDTypeRoCEv2:
		return hw.GIDRoCEv2
	}
	return hw.GIDInfiniBand
}
