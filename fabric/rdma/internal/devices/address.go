package devices

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
)

// indexedGID returns the address that the set index means, not valid without an index. When the
// address is removed and added again, or a bond uses another of its links, it gets another index;
// then the address counts.
func (r *Rail) indexedGID() (addr netip.Addr, err error) {
	if r.choice.GIDIndex == nil {
		return addr, nil
	}
	gids, err := r.Dev.GIDs(r.Port)
	if err != nil {
		return addr, err
	}
	for _, g := range gids {
		if g.Index == *r.choice.GIDIndex && g.Type == hw.GIDRoCEv2 {
			addr = g.Addr
		}
	}
	return addr, nil
}

// limitMTU applies the setting to an address.
func (r *Rail) limitMTU(a verbs.Address) verbs.Address {
	for r.choice.MTU != 0 && a.MTU.Bytes() > r.choice.MTU {
		a.MTU--
	}
	return a
}

// Change is what has changed since the address of a port was queried before.
type Change struct {
	Any     bool // something that peers are told, or one of the other two
	Moved   bool // connections that were made before do not work
	Indices bool // the queue pairs for datagrams must be restarted
}

// refresh queries what the network may change of the port: its address, and the indices of the keys
// of its partitions. The rail uses the new ones from then on, for what is created next. If the port
// or the device is gone for now, nothing changes.
func (r *Rail) refresh() (c Change) {
	address, indices, err := r.query()
	if err != nil {
		return c
	}
	ours, theirs := r.Address, address
	ours.MTU, theirs.MTU = 0, 0
	c.Indices = indices != r.Indices()
	c.Moved = ours != theirs || c.Indices
	c.Any = c.Moved || address != r.Address
	r.Address = address
	for i := range r.partitions {
		r.partitions[i].index = indices[i]
	}
	return c
}

// query returns the present address of the port, and the indices of the keys of its partitions. A
// partition that the port is no longer in keeps its index.
func (r *Rail) query() (address verbs.Address, indices [cm.MaxPartitions]uint16, err error) {
	indices = r.Indices()
	if address, err = r.partitions[0].ud.Address(); err != nil {
		return address, indices, err
	}
	address = r.limitMTU(address)
	port, err := r.Dev.QueryPort(r.Port)
	if err != nil {
		return address, indices, err
	}
	table, err := r.queryPartitions(&port)
	if err != nil {
		return address, indices, err
	}
	for i, p := range r.partitions {
		if index := slices.Index(table, p.key); index >= 0 {
			indices[i] = uint16(index)
		}
	}
	return address, indices, nil
}

// Indices returns the indices of the keys of the partitions in the table of the port.
func (r *Rail) Indices() (indices [cm.MaxPartitions]uint16) {
	for i, p := range r.partitions {
		indices[i] = p.index
	}
	return indices
}

// RailAddress returns what peers know of the rail. The numbers of the responder's queue pairs are
// those of the partitions.
func (r *Rail) RailAddress(responders []*verbs.QP) cm.RailAddress {
	a := cm.RailAddress{Address: r.Address, N: uint8(len(r.partitions))}
	for i, p := range r.partitions {
		a.Partitions[i].Key = p.key
		if r.Index == 0 {
			a.Partitions[i].UD, a.Partitions[i].Responder = p.ud.Num(), responders[i].Num()
		}
	}
	return a
}

// checkPath returns an error if the port of a peer cannot be reached from that of this rail. The
// result is the same at both ends.
func (r *Rail) checkPath(peer *cm.RailAddress) error {
	if err := r.Address.CheckPath(peer.Address); err != nil {
		return fmt.Errorf("%w: %w", fabric.ErrNotSupported, err)
	}
	if ours, theirs := subnetPrefix(&r.Address), subnetPrefix(&peer.Address); ours != theirs {
		return fmt.Errorf("%w: the local port, %v, and that of the peer, %v, are in different InfiniBand subnets; "+
			"only a subnet manager knows the LID of the router between them", fabric.ErrNotSupported, &r.Address, &peer.Address)
	}
	_, _, err := r.SharedPartition(peer)
	return err
}

// subnetPrefix returns the prefix of the InfiniBand subnet of a port, 0 for other ports.
func subnetPrefix(a *verbs.Address) (prefix [8]byte) {
	if a.GIDType == hw.GIDInfiniBand && a.GID.IsValid() {
		b := a.GID.As16()
		prefix = [8]byte(b[:8])
	}
	return prefix
}
