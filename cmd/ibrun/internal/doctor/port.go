package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// portState checks whether ports are up.
func portState(h *Host) []Finding {
	return h.forEachPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		evidence := fmt.Sprintf("%s is %s, %s, %s, %s", name, orUnknown(p.State), orUnknown(p.PhysState), p.LinkLayer,
			formatRate(p.Rate))
		switch {
		case p.State == hw.PortActive:
			return okFinding("%s", evidence)
		case p.PhysState == "Disabled":
			return newFinding(Warning, evidence, "the port is disabled", linkUpFix(p, "mlxlink -d "+d.Name+" --port_state UP"))
		case p.LinkLayer == hw.LinkInfiniBand && p.State == "INIT":
			return newFinding(Error, evidence, "the link is up, but no subnet manager has given the port an address",
				"systemctl start opensm   # on one node")
		case h.anyActive():
			return newFinding(Warning, evidence, "this port cannot send; another port is used",
				linkUpFix(p, "check the cable"))
		}
		return newFinding(Error, evidence, "this port cannot send, and no other port is active",
			linkUpFix(p, "check the cable, then: ibstat "+d.Name))
	})
}

func linkUpFix(p *hw.RDMAPort, otherwise string) string {
	if p.Netdev != "" {
		return "ip link set " + p.Netdev + " up"
	}
	return otherwise
}

// anyActive reports whether a port of this namespace is active.
func (h *Host) anyActive() bool {
	return slices.ContainsFunc(h.Top.RDMA, func(d hw.RDMADevice) bool {
		return !d.OtherNetns && slices.ContainsFunc(d.Ports, func(p hw.RDMAPort) bool { return p.State == hw.PortActive })
	})
}

// orUnknown returns a state, or words for one that the kernel does not report.
func orUnknown(state string) string {
	if state == "" {
		return "in an unknown state"
	}
	return state
}

func formatRate(bits uint64) string {
	if bits == 0 {
		return "rate unknown"
	}
	return strconv.FormatFloat(float64(bits)/1e9, 'g', 4, 64) + " Gb/s"
}

// portSubnet checks whether each InfiniBand port has addresses from a subnet manager.
func portSubnet(h *Host) []Finding {
	return h.forEachPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		switch {
		case p.LinkLayer != hw.LinkInfiniBand:
			return okFinding("%s is a port of %s, which needs no subnet manager", name, p.LinkLayer)
		case p.LID == 0 || p.SMLID == 0:
			return newFinding(Error, fmt.Sprintf("%s has LID %d, its subnet manager LID %d", name, p.LID, p.SMLID),
				"without a subnet manager no port of the fabric has an address", "systemctl start opensm   # on one node")
		}
		return okFinding("%s has LID %d from the subnet manager at LID %d", name, p.LID, p.SMLID)
	})
}

// portPCIe compares the PCI Express link of a device with the capabilities of the device and of its ports.
func portPCIe(h *Host) []Finding {
	return h.forEachDevice(func(d *hw.RDMADevice) []Finding {
		if d.PCI == "" {
			return okFinding("%s is not a PCI device", d.Name)
		}
		i := slices.IndexFunc(h.Top.PCI, func(p hw.PCIDevice) bool { return p.Address == d.PCI })
		if i < 0 || h.Top.PCI[i].Link.Speed == 0 || h.Top.PCI[i].Link.Width == 0 {
			return infoFinding("the PCI Express link of %s (%s) is unknown", d.Name, d.PCI)
		}
		l := h.Top.PCI[i].Link
		evidence := fmt.Sprintf("%s (%s) has a link of %g GT/s x%d", d.Name, d.PCI, l.Speed, l.Width)
		var ports float64
		for _, p := range d.Ports {
			ports += float64(p.Rate) / 1e9
		}
		const fix = "lspci -vv shows LnkSta and LnkCap   # then move the card to a slot with all lanes"
		switch {
		case l.Width < l.MaxWidth || l.Speed < l.MaxSpeed:
			return newFinding(Warning, fmt.Sprintf("%s, but supports %g GT/s x%d", evidence, l.MaxSpeed, l.MaxWidth),
				fmt.Sprintf("the link carries at most about %.0f Gb/s", linkBandwidth(l)), fix)
		case linkBandwidth(l) < 0.9*ports:
			return newFinding(Warning, fmt.Sprintf("%s, its ports together have %g Gb/s", evidence, ports),
				fmt.Sprintf("the link carries at most about %.0f Gb/s", linkBandwidth(l)),
				"use one port of the card, or a slot of a newer generation")
		}
		return okFinding("%s, the maximum of the device", evidence)
	})
}

// linkBandwidth returns the data rate of a link in Gb/s after its encoding: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, flits
// from 64.
func linkBandwidth(l hw.Link) float64 {
	coding := 128.0 / 130
	switch {
	case l.Speed <= 5:
		coding = 0.8
	case l.Speed >= 64:
		coding = 0.98
	}
	return l.Speed * float64(l.Width) * coding
}

// gidChoice checks that each RoCE port has an address that peers can reach.
func gidChoice(h *Host) []Finding {
	return h.forEachPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		if p.LinkLayer == hw.LinkUnknown || p.State != hw.PortActive {
			return infoFinding("%s is not active, so it needs no GID", name)
		}
		if d.AccessError != nil {
			return infoFinding("%s cannot be opened, so it needs no GID", name)
		}
		c, err := p.ChooseGID(hw.GIDRequest{})
		netdev := p.Netdev
		if netdev == "" {
			netdev = "NETDEV"
		}
		address := "ip addr add 10.0.0.1/24 dev " + netdev + "   # an address of the subnet that all nodes share"
		switch {
		case d.Type == hw.NodeRNIC || d.Type == hw.NodeUnspecified:
			return okFinding("peers of %s are not addressed by GID", name)
		case err != nil && h.jobsUse(name): // the device may tell what /sys does not
			return infoFinding("%s: %s; jobs can use the port all the same", name, strings.TrimPrefix(err.Error(), "hw: "))
		case err != nil && inOtherNetns(p):
			return newFinding(Error, name+": "+strings.TrimPrefix(err.Error(), "hw: "),
				"this process sees the device, but the addresses of "+p.Netdev+" belong to another network namespace",
				"docker run --network host ...   # or move an interface above it, such as a macvlan, to this namespace")
		case err != nil:
			return newFinding(Error, name+": "+strings.TrimPrefix(err.Error(), "hw: "),
				`connections to peers end in "transport retry counter exceeded" (12)`, address)
		case c.Family() == hw.FamilyLinkLocal:
			return newFinding(Warning, fmt.Sprintf("%s: %v, %s", name, c.GID, c.Reason),
				"a link-local address cannot be reached from other subnets, and other programs choose another address", address)
		}
		return okFinding("%s: %v, %s", name, c.GID, c.Reason)
	})
}

// inOtherNetns reports whether all GIDs of a port belong to other network namespaces.
func inOtherNetns(p *hw.RDMAPort) bool {
	return len(p.GIDs) > 0 && !slices.ContainsFunc(p.GIDs, func(g hw.GID) bool { return !g.OtherNetns })
}

// gidIndex checks whether the user has pinned a GID index. Indexes differ between nodes and change after a port was down.
func gidIndex(h *Host) []Finding {
	if !h.Live {
		return infoFinding("a captured tree does not contain the environment: whether a GID index is pinned is unknown")
	}
	for _, variable := range []string{"NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX"} {
		value := h.Getenv(variable)
		index, err := strconv.Atoi(value)
		if value == "" || value == "auto" || err != nil || index < 0 {
			continue
		}
		for _, d := range h.Top.RDMA {
			for _, p := range d.Ports {
				c, err := p.ChooseGID(hw.GIDRequest{})
				if !d.OtherNetns && p.LinkLayer == hw.LinkEthernet && err == nil && c.Index != index {
					return newFinding(Warning,
						fmt.Sprintf("%s=%d, but %s is reached at index %d", variable, index, portName(&d, &p), c.Index),
						`the index differs between nodes: connections end in "transport retry counter exceeded" (12)`,
						"unset "+variable)
				}
			}
		}
		return newFinding(Info, fmt.Sprintf("%s=%d, which is currently right", variable, index),
			"the index changes when addresses come and go", "unset "+variable)
	}
	return okFinding("no GID index is pinned by NCCL_IB_GID_INDEX or UCX_IB_GID_INDEX")
}

// The sizes of InfiniBand packets. headerBytes is an upper bound of what RoCE v2 adds to the payload: IPv6, UDP, base and
// extended transport headers and the checksum.
const (
	largestMTU  = 4096
	headerBytes = 104
	fastPort    = 20e9 // bits per second; faster ports lose bandwidth with small packets
)

// largestPacket returns the largest packet size that fits an Ethernet MTU, or 0.
func largestPacket(mtu int) int {
	size := 0
	for s := 256; s <= largestMTU && s+headerBytes <= mtu; s *= 2 {
		size = s
	}
	return size
}

// findNetdev returns the network interface with this name.
func (h *Host) findNetdev(name string) (hw.Netdev, bool) {
	for _, n := range h.Top.Netdevs {
		if n.Name == name {
			return n, true
		}
	}
	return hw.Netdev{}, false
}

// mtuSize checks how large the packets of a RoCE port are.
func mtuSize(h *Host) []Finding {
	return h.forEachPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		n, found := h.findNetdev(p.Netdev)
		active, known := h.MTUs[name]
		switch {
		case p.LinkLayer != hw.LinkEthernet:
			return okFinding("%s is a port of %s, whose packet size does not depend on a network interface", name, p.LinkLayer)
		case !found || n.MTU == 0:
			return infoFinding("the MTU of the network interface of %s is unknown", name)
		}
		size := largestPacket(n.MTU)
		switch {
		case known && active.Active == 0:
			return infoFinding("the size of the packets of %s is unknown, because its active MTU is", name)
		case known && active.Active < size:
			return infoFinding("%s sends packets of %d bytes: so small is its active MTU, while %s has an MTU of %d", name, active.Active,
				n.Name, n.MTU)
		}
		evidence := fmt.Sprintf("%s sends packets of %d bytes: %s has an MTU of %d", name, size, n.Name, n.MTU)
		fix := "ip link set " + n.Name + " mtu 9000   # on all nodes, after the switches"
		switch {
		case size == 0:
			return newFinding(Error, evidence, "not even the smallest packet fits", fix)
		case size < largestMTU && p.Rate >= fastPort:
			return newFinding(Warning, evidence,
				fmt.Sprintf("an MTU of 4200 or more allows packets of %d bytes; small packets cost bandwidth", largestMTU), fix)
		case size < largestMTU:
			return newFinding(Info, evidence, fmt.Sprintf("an MTU of 4200 or more allows packets of %d bytes", largestMTU), fix)
		}
		return okFinding("%s", evidence)
	})
}

// mtuEqual compares the MTU of the RoCE ports of this machine, which usually are on one network.
func mtuEqual(h *Host) []Finding {
	sizes := map[int][]string{}
	h.forEachPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		if n, found := h.findNetdev(p.Netdev); found && n.MTU > 0 && p.LinkLayer == hw.LinkEthernet && p.State == hw.PortActive {
			sizes[n.MTU] = append(sizes[n.MTU], n.Name)
		}
		return nil
	})
	switch len(sizes) {
	case 0:
		return infoFinding("there is no active RoCE port")
	case 1:
		return okFinding("all active RoCE ports have the same MTU")
	}
	var words []string
	largest := 0
	for _, mtu := range slices.Sorted(maps.Keys(sizes)) {
		words = append(words, fmt.Sprintf("%d on %s", mtu, strings.Join(sizes[mtu], ", ")))
		largest = mtu
	}
	return newFinding(Warning, "the MTU is "+strings.Join(words, ", "),
		"between ports with different MTUs small messages arrive and large ones do not",
		fmt.Sprintf("ip link set NETDEV mtu %d   # on all ports of one network", largest))
}
