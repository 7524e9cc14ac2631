package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// portState looks whether ports are up.
func portState(h *Host) []Finding {
	return h.eachPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		evidence := fmt.Sprintf("%s is %s, %s, %s, %s", name, p.State, p.PhysState, p.LinkLayer, rate(p.Rate))
		switch {
		case p.State == hw.PortActive:
			return ok("%s", evidence)
		case p.PhysState == "Disabled":
			return finding(Warning, evidence, "the port is switched off", upFix(p, "mlxlink -d "+d.Name+" --port_state UP"))
		case p.LinkLayer == hw.LinkInfiniBand && p.State == "INIT":
			return finding(Error, evidence, "the link is up, but no subnet manager has given the port an address",
				"systemctl start opensm   # on one node")
		case h.anyActive():
			return finding(Warning, evidence, "nothing can be sent through this port; another one is used",
				upFix(p, "check the cable"))
		}
		return finding(Error, evidence, "nothing can be sent through this port, and no other one is active",
			upFix(p, "check the cable, then: ibstat "+d.Name))
	})
}

func upFix(p *hw.RDMAPort, otherwise string) string {
	if p.Netdev != "" {
		return "ip link set " + p.Netdev + " up"
	}
	return otherwise
}

// anyActive tells whether one port of this namespace is active.
func (h *Host) anyActive() bool {
	return slices.ContainsFunc(h.Top.RDMA, func(d hw.RDMADevice) bool {
		return !d.OtherNetns && slices.ContainsFunc(d.Ports, func(p hw.RDMAPort) bool { return p.State == hw.PortActive })
	})
}

func rate(bits uint64) string {
	if bits == 0 {
		return "rate unknown"
	}
	return strconv.FormatFloat(float64(bits)/1e9, 'g', 4, 64) + " Gb/s"
}

// portSubnet looks for what an InfiniBand port gets from the subnet manager.
func portSubnet(h *Host) []Finding {
	return h.eachPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		switch {
		case p.LinkLayer != hw.LinkInfiniBand:
			return ok("%s is on %s, which needs no subnet manager", name, p.LinkLayer)
		case p.LID == 0 || p.SMLID == 0:
			return finding(Error, fmt.Sprintf("%s has LID %d, its subnet manager LID %d", name, p.LID, p.SMLID),
				"without a subnet manager no port of the fabric has an address", "systemctl start opensm   # on one node")
		}
		return ok("%s has LID %d from the subnet manager at LID %d", name, p.LID, p.SMLID)
	})
}

// portPCIe compares the PCI Express link of a device with what the device can do, and with what its ports can.
func portPCIe(h *Host) []Finding {
	return h.each(func(d *hw.RDMADevice) []Finding {
		if d.PCI == "" {
			return ok("%s is no PCI device", d.Name)
		}
		i := slices.IndexFunc(h.Top.PCI, func(p hw.PCIDevice) bool { return p.Address == d.PCI })
		if i < 0 || h.Top.PCI[i].Link.Speed == 0 || h.Top.PCI[i].Link.Width == 0 {
			return hint("the PCI Express link of %s (%s) is unknown", d.Name, d.PCI)
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
			return finding(Warning, fmt.Sprintf("%s, and can have %g GT/s x%d", evidence, l.MaxSpeed, l.MaxWidth),
				fmt.Sprintf("it carries at most about %.0f Gb/s", bandwidth(l)), fix)
		case bandwidth(l) < 0.9*ports:
			return finding(Warning, fmt.Sprintf("%s, its ports together %g Gb/s", evidence, ports),
				fmt.Sprintf("the link carries at most about %.0f Gb/s", bandwidth(l)),
				"use one port of the card, or a slot of a newer generation")
		}
		return ok("%s, all that it can", evidence)
	})
}

// bandwidth is what a link carries in Gb/s after its coding: 8b/10b up to 5 GT/s, then 128b/130b, and flits from 64.
func bandwidth(l hw.Link) float64 {
	coding := 128.0 / 130
	switch {
	case l.Speed <= 5:
		coding = 0.8
	case l.Speed >= 64:
		coding = 0.98
	}
	return l.Speed * float64(l.Width) * coding
}

// gidChoice looks for an address under which peers reach each RoCE port.
func gidChoice(h *Host) []Finding {
	return h.eachPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		if p.LinkLayer == hw.LinkUnknown || p.State != hw.PortActive {
			return hint("%s is not active: it needs no GID now", name)
		}
		c, err := p.ChooseGID(hw.GIDRequest{})
		netdev := p.Netdev
		if netdev == "" {
			netdev = "NETDEV"
		}
		address := "ip addr add 10.0.0.1/24 dev " + netdev + "   # an address of the subnet that all nodes share"
		switch {
		case d.Type == hw.NodeRNIC || d.Type == hw.NodeUnspecified:
			return ok("peers of %s are not addressed by GID", name)
		case err != nil:
			return finding(Error, name+": "+strings.TrimPrefix(err.Error(), "hw: "),
				`connections to peers end in "transport retry counter exceeded" (12)`, address)
		case c.Family() == hw.FamilyLinkLocal:
			return finding(Warning, fmt.Sprintf("%s: %v, %s", name, c.GID, c.Reason),
				"a link-local address reaches no other subnet, and other programs choose another one", address)
		}
		return ok("%s: %v, %s", name, c.GID, c.Reason)
	})
}

// gidIndex looks whether the user has pinned an index, which differs from node to node and after a port was down.
func gidIndex(h *Host) []Finding {
	if !h.Live {
		return hint("whether a GID index is pinned in the environment, a captured tree does not tell")
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
					return finding(Warning,
						fmt.Sprintf("%s=%d, but %s is reached at index %d", variable, index, portName(&d, &p), c.Index),
						`the index differs from node to node: connections end in "transport retry counter exceeded" (12)`,
						"unset "+variable)
				}
			}
		}
		return finding(Info, fmt.Sprintf("%s=%d, which is right now", variable, index),
			"the index changes when addresses come and go", "unset "+variable)
	}
	return ok("no GID index is pinned by NCCL_IB_GID_INDEX or UCX_IB_GID_INDEX")
}

// The sizes of InfiniBand packets, and what RoCE v2 adds to them: IPv6, UDP, base and extended transport headers and the
// checksum need less than this.
const (
	largestMTU = 4096
	headers    = 104
	fastPort   = 20e9 // bits per second, from which on small packets cost
)

// packet is the largest packet that fits an Ethernet MTU.
func packet(mtu int) int {
	size := 0
	for s := 256; s <= largestMTU && s+headers <= mtu; s *= 2 {
		size = s
	}
	return size
}

// netdev finds a network interface.
func (h *Host) netdev(name string) (hw.Netdev, bool) {
	for _, n := range h.Top.Netdevs {
		if n.Name == name {
			return n, true
		}
	}
	return hw.Netdev{}, false
}

// mtuSize looks how large the packets of a RoCE port are.
func mtuSize(h *Host) []Finding {
	return h.eachPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		n, found := h.netdev(p.Netdev)
		switch {
		case p.LinkLayer != hw.LinkEthernet:
			return ok("%s is on %s, whose packets do not depend on a network interface", name, p.LinkLayer)
		case !found || n.MTU == 0:
			return hint("the MTU below %s is unknown", name)
		}
		size := packet(n.MTU)
		evidence := fmt.Sprintf("%s sends packets of %d bytes: %s has an MTU of %d", name, size, n.Name, n.MTU)
		fix := "ip link set " + n.Name + " mtu 9000   # on all nodes, after the switches"
		switch {
		case size == 0:
			return finding(Error, evidence, "not even the smallest packet fits", fix)
		case size < largestMTU && p.Rate >= fastPort:
			return finding(Warning, evidence,
				fmt.Sprintf("%d bytes would fit from an MTU of 4200 on; small packets cost bandwidth", largestMTU), fix)
		case size < largestMTU:
			return finding(Info, evidence, fmt.Sprintf("%d bytes would fit from an MTU of 4200 on", largestMTU), fix)
		}
		return ok("%s", evidence)
	})
}

// mtuEqual compares the RoCE ports of this machine, which most likely are on one network.
func mtuEqual(h *Host) []Finding {
	sizes := map[int][]string{}
	h.eachPort(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		if n, found := h.netdev(p.Netdev); found && n.MTU > 0 && p.LinkLayer == hw.LinkEthernet && p.State == hw.PortActive {
			sizes[n.MTU] = append(sizes[n.MTU], n.Name)
		}
		return nil
	})
	switch len(sizes) {
	case 0:
		return hint("there is no active RoCE port to compare")
	case 1:
		return ok("all active RoCE ports have the same MTU")
	}
	var words []string
	largest := 0
	for _, mtu := range slices.Sorted(maps.Keys(sizes)) {
		words = append(words, fmt.Sprintf("%d on %s", mtu, strings.Join(sizes[mtu], ", ")))
		largest = mtu
	}
	return finding(Warning, "the MTU is "+strings.Join(words, ", "),
		"between ports of different MTU small messages arrive and large ones do not",
		fmt.Sprintf("ip link set NETDEV mtu %d   # on all ports of one network", largest))
}
