package doctor

import (
	"fmt"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/tunables"
)

// PortMTU is the payload of the packets of a port, in bytes: the active one, and the most that the device supports.
type PortMTU struct{ Active, Max int }

// leastHeader is what RoCE v2 adds to the payload of the packets of most connections: IPv6, UDP, the base and the RDMA header,
// and the checksum.
const leastHeader = 40 + 8 + 12 + 16 + 4

// mtuActive compares the active MTU of RoCE ports with the MTU of their interfaces. A device that did not notice a change of the
// latter sends packets that are dropped.
func mtuActive(h *Host) []Finding {
	all := h.forEachUsable(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		n, found := h.findNetdev(p.Netdev)
		mtu, known := h.MTUs[name]
		switch {
		case !h.Live:
			return infoFinding("a captured tree does not contain the active MTU of %s", name)
		case !known || mtu.Active == 0:
			return infoFinding("the active MTU of %s is unknown", name)
		case p.LinkLayer != hw.LinkEthernet:
			return okFinding("%s has an active MTU of %d", name, mtu.Active)
		case !found || n.MTU == 0:
			return infoFinding("%s has an active MTU of %d; the MTU of its network interface is unknown", name, mtu.Active)
		}
		evidence := fmt.Sprintf("%s has an active MTU of %d, and its interface %s an MTU of %d", name, mtu.Active, n.Name, n.MTU)
		again := fmt.Sprintf("ip link set %s down && ip link set %[1]s up", n.Name)
		fits := largestPacket(n.MTU)
		switch {
		case mtu.Active+leastHeader > n.MTU:
			return newFinding(Warning, evidence, "packets of this size do not fit the interface: long messages get lost",
				fmt.Sprintf("ip link set %s mtu 9000   # or to use the new MTU of the interface: %s", n.Name, again))
		case mtu.Active < min(fits, mtu.Max):
			return newFinding(Warning, evidence, fmt.Sprintf("packets of %d bytes would fit; small packets cost bandwidth", fits), again)
		}
		return okFinding("%s", evidence)
	})
	if all == nil {
		return infoFinding("there is no active RDMA port that ibrun can use")
	}
	return all
}

// mtuHosts compares the active MTU of ports of this host with those of other hosts that they reach.
func mtuHosts(h *Host) []Finding {
	here := h.summaries()
	return h.forEachLogin("the MTU", func(p Peer) []Finding {
		if p.PortsErr != nil {
			return infoFinding("the MTU of %s is unknown: %v", p.Name, p.PortsErr)
		}
		compared := 0
		for _, a := range here {
			for _, b := range p.Ports {
				if !a.reaches(b) || a.MTU == 0 || b.MTU == 0 {
					continue
				}
				compared++
				if a.MTU != b.MTU {
					return newFinding(Warning, fmt.Sprintf("%s has an active MTU of %d, and %s of %s one of %d", a.Port, a.MTU, b.Port,
						p.Name, b.MTU), "connections use the smaller one; a switch between them may drop the larger packets of other programs",
						"set the same MTU on all nodes: ip link set NETDEV mtu 9000   # InfiniBand: in partitions.conf of opensm")
				}
			}
		}
		if compared == 0 {
			return infoFinding("%s has no port to compare the MTU with", p.Name)
		}
		return okFinding("ports of this host and of %s have the same active MTU", p.Name)
	})
}

// mtuSetting compares the MTU that the user has set with those of the ports.
func mtuSetting(h *Host) []Finding {
	variable := tunables.RDMAMTU.Variable
	want, set, err := tunables.RDMAMTU.FromEnv(h.Getenv)
	switch {
	case !h.Live:
		return infoFinding("a captured tree does not contain the environment: whether %s is set is unknown", variable)
	case err != nil:
		return infoFinding("%v", err) // reported by the check of settings
	case !set:
		return okFinding("%s is not set", variable)
	}
	for _, s := range h.summaries() {
		if s.MTU != 0 && want > s.MTU {
			return newFinding(Warning, fmt.Sprintf("%s=%d, but %s has an active MTU of %d", variable, want, s.Port, s.MTU),
				fmt.Sprintf("connections of this port use %d", s.MTU), "unset "+variable)
		}
	}
	return okFinding("%s=%d is not more than the ports have", variable, want)
}
