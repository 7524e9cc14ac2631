package doctor

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
)

// maxMatrixPorts bounds the matrix of pings: with more ports, each pings only itself and the next one.
const maxMatrixPorts = 16

// pingTimeout is how long a ping may take. A lost packet is retransmitted after some milliseconds.
const pingTimeout = 2 * time.Second

// activePort is an active port of an open device.
type activePort struct {
	name string
	dev  *verbs.Context
	port *hw.RDMAPort
	gid  hw.GIDChoice // if the port is RoCE
}

// pingPorts sends a byte from each active RDMA port of this machine to each other one on the same network, and to itself.
func pingPorts(devices []hw.RDMADevice) []Ping {
	var ports []activePort
	var pings []Ping
	for i := range devices {
		d := &devices[i]
		if d.OtherNetns || d.AccessError != nil || !supported(d) {
			continue // other checks report this
		}
		var active []*hw.RDMAPort
		for j := range d.Ports {
			if _, full := partitionIndex(&d.Ports[j]); full && d.Ports[j].State == hw.PortActive {
				active = append(active, &d.Ports[j])
			}
		}
		if len(active) == 0 {
			continue
		}
		dev, err := verbs.Open(d.Name, verbs.Options{})
		if err != nil {
			name := portName(d, active[0])
			pings = append(pings, Ping{From: name, To: name, Err: err})
			continue
		}
		defer dev.Close() // also destroys its objects; errors of the device were reported by a ping
		for _, p := range active {
			s := activePort{name: portName(d, p), dev: dev, port: p}
			if c, err := p.ChooseGID(hw.GIDRequest{}); err == nil {
				s.gid = c
			}
			ports = append(ports, s)
		}
	}
	for i, from := range ports {
		for j, to := range ports {
			near := i == j || j == (i+1)%len(ports)
			if (near || len(ports) <= maxMatrixPorts) && from.onSameNetwork(to) {
				took, err := from.ping(to)
				pings = append(pings, Ping{From: from.name, To: to.name, Time: took, Err: err})
			}
		}
	}
	return pings
}

// usablePorts calls use for each active port of each device that this process can open.
func usablePorts(devices []hw.RDMADevice, use func(d *hw.RDMADevice, p *hw.RDMAPort)) {
	for i := range devices {
		d := &devices[i]
		for j := range d.Ports {
			if p := &d.Ports[j]; !d.OtherNetns && d.AccessError == nil && p.State == hw.PortActive {
				use(d, p)
			}
		}
	}
}

// portMTUs asks the devices for the MTU of active ports. A device that does not answer is left out: the pings report it.
func portMTUs(devices []hw.RDMADevice) map[string]PortMTU {
	mtus := map[string]PortMTU{}
	open := map[string]*verbs.Context{}
	usablePorts(devices, func(d *hw.RDMADevice, p *hw.RDMAPort) {
		dev, tried := open[d.Name]
		if !tried {
			if c, err := verbs.Open(d.Name, verbs.Options{}); err == nil {
				dev = c
			}
			open[d.Name] = dev
		}
		if dev == nil {
			return
		}
		if a, err := dev.QueryPort(p.Number); err == nil {
			mtus[portName(d, p)] = PortMTU{a.ActiveMTU.Bytes(), a.MaxMTU.Bytes()}
		}
	})
	for _, dev := range open {
		if dev != nil {
			dev.Close() // it was only asked, so an error changes nothing
		}
	}
	return mtus
}

// portNetworks returns the IP network of each active RoCE port.
func portNetworks(devices []hw.RDMADevice) map[string]netip.Prefix {
	networks := map[string]netip.Prefix{}
	usablePorts(devices, func(d *hw.RDMADevice, p *hw.RDMAPort) {
		c, err := p.ChooseGID(hw.GIDRequest{})
		if err != nil || p.LinkLayer != hw.LinkEthernet || c.Family() == hw.FamilyLinkLocal {
			return
		}
		for _, n := range interfaceNetworks(c.Netdev) {
			if n.Addr() == c.Addr.Unmap() && n.Bits() < n.Addr().BitLen()-1 { // a longer prefix has no room for two hosts
				networks[portName(d, p)] = n.Masked()
			}
		}
	})
	return networks
}

// interfaceNetworks returns the addresses of an interface, each with the length of the prefix of its network. It returns none for
// an interface that does not exist any more.
func interfaceNetworks(netdev string) (list []netip.Prefix) {
	iface, err := net.InterfaceByName(netdev)
	if err != nil {
		return nil
	}
	addresses, err := iface.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, prefix)
		}
	}
	return list
}

// onSameNetwork reports whether two ports seem to be on one network. RoCE ports must be on the same IP subnet.
func (s activePort) onSameNetwork(to activePort) bool {
	switch {
	case s.name == to.name:
		return true
	case s.port.LinkLayer != to.port.LinkLayer:
		return false
	case s.port.LinkLayer != hw.LinkEthernet:
		return s.port.SMLID == to.port.SMLID && subnetOf(s.gid) == subnetOf(to.gid)
	}
	return slices.ContainsFunc(interfaceNetworks(s.gid.Netdev), func(n netip.Prefix) bool {
		return !n.Addr().IsLinkLocalUnicast() && n.Contains(to.gid.Addr.Unmap())
	})
}

// pingEnd is one end of a ping.
type pingEnd struct {
	cq *verbs.CQ
	qp *verbs.QP
	mr *verbs.MR
}

// partitionIndex returns the index of the first partition that a port is a full member of. Without one, the port does not reach
// itself, which another check reports. A kernel that does not list partitions has the default one at index 0.
func partitionIndex(p *hw.RDMAPort) (index int, full bool) {
	i := slices.IndexFunc(p.PKeys, func(k uint16) bool { return k&fullMember != 0 && k != fullMember })
	return max(i, 0), i >= 0 || len(p.PKeys) == 0
}

// newPingEnd creates an unconnected queue pair on the port.
func (s activePort) newPingEnd() (e pingEnd, err error) {
	pd, err := s.dev.AllocPD()
	if err != nil {
		return e, err
	}
	if e.mr, err = pd.Register(make([]byte, 2), verbs.LocalWrite); err != nil {
		return e, err
	}
	if e.cq, err = s.dev.CreateCQ(4, nil); err != nil {
		return e, err
	}
	index, _ := partitionIndex(s.port)
	e.qp, err = pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: e.cq, MaxSend: 2, MaxRecv: 2, Port: s.port.Number,
		PKeyIndex: index})
	return e, err
}

// ping sends a byte twice over a reliable connection and returns the time of the second transfer. The first one includes address
// resolution.
func (s activePort) ping(to activePort) (time.Duration, error) {
	from, err := s.newPingEnd()
	if err != nil {
		return 0, err
	}
	peer, err := to.newPingEnd()
	if err != nil {
		return 0, err
	}
	there, err := peer.qp.Address()
	if err != nil {
		return 0, err
	}
	here, err := from.qp.Address()
	if err != nil {
		return 0, err
	}
	if err := errors.Join(from.qp.Connect(there), peer.qp.Connect(here)); err != nil {
		return 0, err
	}
	var took time.Duration
	for range 2 {
		if err := peer.qp.Recv(1, peer.mr.SGE(1, 1)); err != nil {
			return 0, err
		}
		begin := time.Now()
		if err := errors.Join(from.qp.Send(2, verbs.Signaled, from.mr.SGE(0, 1)), from.qp.Ring()); err != nil {
			return 0, err
		}
		if err := errors.Join(waitCompletion(from.cq, begin), waitCompletion(peer.cq, begin)); err != nil {
			return 0, err
		}
		took = time.Since(begin)
	}
	return took, nil
}

// waitCompletion polls until there is one completion.
func waitCompletion(cq *verbs.CQ, begin time.Time) error {
	var wc [1]verbs.WC
	for time.Since(begin) < pingTimeout {
		n, err := cq.Poll(wc[:])
		if err != nil {
			return err
		}
		if n > 0 {
			return wc[0].Err()
		}
	}
	return fmt.Errorf("no completion within %v", pingTimeout)
}
