//go:build unix

package verbstest

import (
	"net/netip"
	"slices"
	"syscall"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// SimulatedPort describes port 1 of a simulated device. The zero SimulatedPort is that of a RoCE device.
type SimulatedPort struct {
	State     verbs.PortState // 0 means that of [SimulatedDevice], as with MTU
	LinkLayer hw.LinkLayer    // empty means Ethernet
	MTU       verbs.MTU       // the active one
	Rate      uint64          // in bits per second; 0 means unknown
	// PKeys is the table of partition keys, with 0 in empty entries. Nil means the default partition alone.
	PKeys []uint16
	// GIDs is the GID table. Nil means one address: of all Ethernet ports the same; on InfiniBand the LID in the default subnet.
	GIDs []hw.GID

	LID         uint16 // InfiniBand only, as are the next two
	LMC         uint8
	GRHRequired bool // as with virtual functions

	MAC uint64 // Ethernet only. A packet with another one does not arrive; an address handle keeps that of its creation
}

// SetPort changes the port of a device, open or not. Other devices have the zero SimulatedPort. No event is raised.
func (n *SimulatedNetwork) SetPort(device string, p SimulatedPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports[device] = p
	n.progress()
}

// portOf returns the port of a device.
func (n *SimulatedNetwork) portOf(device string) SimulatedPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.port(device)
}

// port is portOf for a caller that holds mu. All fields of the result are set.
func (n *SimulatedNetwork) port(device string) SimulatedPort {
	p, is := n.ports[device], n.deviceLocked(device)
	if p.State == 0 {
		p.State = is.Port.State
	}
	if p.LinkLayer == "" {
		p.LinkLayer = hw.LinkEthernet
	}
	if p.MTU == 0 {
		p.MTU = is.Port.ActiveMTU
	}
	if p.PKeys == nil {
		p.PKeys = []uint16{0xffff}
	}
	switch {
	case p.GIDs != nil:
	case p.isInfiniBand():
		p.GIDs = []hw.GID{{Index: 0, Addr: InfiniBandGID(0xfe80<<48, p.LID), Type: hw.GIDInfiniBand}}
	default:
		p.GIDs = []hw.GID{{Index: 1, Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Type: hw.GIDRoCEv2, Netdev: "eth0"}}
	}
	return p
}

// InfiniBandGID returns the GID of a port in the subnet with the given prefix.
func InfiniBandGID(prefix uint64, guid uint16) netip.Addr {
	var b [16]byte
	for i := range 8 {
		b[i] = byte(prefix >> (56 - 8*i))
	}
	b[14], b[15] = byte(guid>>8), byte(guid)
	return netip.AddrFrom16(b)
}

func (p *SimulatedPort) isInfiniBand() bool { return p.LinkLayer == hw.LinkInfiniBand }

// hw returns the port as package hw would describe it.
func (p SimulatedPort) hw() hw.RDMAPort {
	port := hw.RDMAPort{Number: 1, State: p.State.String(), Rate: p.Rate, LinkLayer: p.LinkLayer, LID: p.LID, GIDs: p.GIDs,
		PKeys: p.PKeys}
	if !p.isInfiniBand() {
		port.Netdev = "eth0"
	}
	return port
}

func (d *simDevice) QueryPort(int) (ib.PortAttr, error) {
	p, a := d.net.portOf(d.name), ibPortAttr(d.is.Port)
	a.State, a.ActiveMTU, a.LID, a.LMC = uint8(p.State), uint8(p.MTU), p.LID, p.LMC
	a.GIDTableLen, a.PKeyTableLen = uint32(p.GIDs[len(p.GIDs)-1].Index+1), uint16(len(p.PKeys))
	if p.isInfiniBand() {
		a.LinkLayer = 1 // IBV_LINK_LAYER_INFINIBAND
	}
	if p.GRHRequired {
		a.Flags = 1 // IB_UVERBS_QPF_GRH_REQUIRED
	}
	return a, d.call(CallQueryPort)
}

func (d *simDevice) QueryGIDs() (list []ib.GID, err error) {
	types := map[hw.GIDType]uint32{hw.GIDInfiniBand: 0, hw.GIDRoCEv1: 1, hw.GIDRoCEv2: 2} // enum ib_uverbs_gid_type
	for _, g := range d.net.portOf(d.name).GIDs {
		list = append(list, ib.GID{GID: g.Addr.As16(), Index: uint32(g.Index), Port: 1, Type: types[g.Type]})
	}
	return list, d.call(CallQueryGIDs)
}

func (d *simDevice) QueryPKey(_, index int) (uint16, error) {
	keys := d.net.portOf(d.name).PKeys
	if index < 0 || index >= len(keys) {
		return 0, syscall.EINVAL
	}
	return keys[index], d.call(CallQueryPKey)
}

// simPath is an address vector that a device has accepted, with the MAC address to which the peer's GID was resolved.
type simPath struct {
	ib.AHAttr
	mac uint64
}

// gid returns the entry of the GID table with an index, nil if it is empty.
func (p *SimulatedPort) gid(index uint8) *hw.GID {
	if i := slices.IndexFunc(p.GIDs, func(g hw.GID) bool { return g.Index == int(index) }); i >= 0 {
		return &p.GIDs[i]
	}
	return nil
}

// resolve checks an address vector, as drivers and the kernel do. The caller must hold the mutex of the network.
func (d *simDevice) resolve(a *ib.AHAttr) (simPath, error) {
	p, path := d.net.port(d.name), simPath{AHAttr: *a}
	const maxUnicastLID = 0xbfff
	switch {
	case a.Global && p.gid(a.SGIDIndex) == nil, a.Global && a.DGID == [16]byte{},
		p.isInfiniBand() && (p.GRHRequired && !a.Global || a.DLID == 0 || a.DLID > maxUnicastLID || a.SrcPathBits>>p.LMC != 0),
		!p.isInfiniBand() && !a.Global,
		a.SL > 15:
		return path, syscall.EINVAL
	case p.isInfiniBand():
		return path, nil
	}
	for name := range d.net.ports {
		if peer := d.net.port(name); !peer.isInfiniBand() && peer.hasGID(a.DGID) {
			path.mac = peer.MAC
			return path, nil
		}
	}
	if p.hasGID(a.DGID) { // of this device and of all others that SetPort was not called for
		return path, nil
	}
	return path, syscall.ETIMEDOUT
}

// hasGID reports whether the table contains a GID.
func (p *SimulatedPort) hasGID(gid [16]byte) bool {
	return slices.ContainsFunc(p.GIDs, func(g hw.GID) bool { return g.Addr.As16() == gid })
}

// setPath changes the path and the partition of the queue pair, as far as the mask selects them.
func (q *simQP) setPath(a *ib.QPAttr, m verbs.AttrMask) (err error) {
	p := q.dev.net.port(q.dev.name)
	if m&verbs.AttrPKeyIndex != 0 {
		if int(a.PKeyIndex) >= len(p.PKeys) {
			return syscall.EINVAL
		}
		q.pkeyIndex = a.PKeyIndex
	}
	if m&verbs.AttrMTU != 0 {
		if verbs.MTU(a.PathMTU) > p.MTU {
			return syscall.EINVAL
		}
		q.mtu = a.PathMTU
	}
	if m&verbs.AttrAH != 0 {
		q.path, err = q.dev.resolve(&a.AH)
	}
	return err
}

// pkey returns the partition key of the queue pair, 0 if the entry of the table is empty.
func (q *simQP) pkey() uint16 {
	if keys := q.dev.net.port(q.dev.name).PKeys; int(q.pkeyIndex) < len(keys) {
		return keys[q.pkeyIndex]
	}
	return 0
}

// reaches reports whether packets of this queue pair over a path arrive at a queue pair, and are accepted there.
func (q *simQP) reaches(peer *simQP, path simPath) bool {
	own, port := q.dev.net.port(q.dev.name), q.dev.net.port(peer.dev.name)
	if separate := q.dev.net.separate; separate != nil && separate(q.dev.name, peer.dev.name) {
		return false
	}
	if own.State != verbs.PortActive || port.State != verbs.PortActive {
		return false
	}
	const full = 1 << 15
	if a, b := q.pkey(), peer.pkey(); own.LinkLayer != port.LinkLayer || a&^full == 0 || a&^full != b&^full || (a|b)&full == 0 {
		return false
	}
	sgid := own.gid(path.SGIDIndex)
	if path.Global && (sgid == nil || !port.hasGID(path.DGID)) {
		return false
	}
	if !own.isInfiniBand() {
		return path.mac == port.MAC && slices.ContainsFunc(port.GIDs, func(g hw.GID) bool {
			return g.Type == sgid.Type && g.Addr.As16() == path.DGID
		})
	}
	if path.DLID>>port.LMC != port.LID>>port.LMC || port.GRHRequired && !path.Global {
		return false
	}
	// A connection accepts only packets from the LID that it sends to.
	return q.typ == verbs.UD || peer.path.DLID == own.LID|uint16(path.SrcPathBits)
}
