package doctor

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/internal/tunables"
)

// fullMember is the bit of a partition key that says that the port is a full member. Two limited members of a partition do not
// reach each other.
const fullMember = 1 << 15

// infiniBandPrefix is the length in bits of the prefix of an InfiniBand subnet.
const infiniBandPrefix = 64

// portSummary is what another host must know of an active port to tell whether its own ports reach it. `ibrun doctor --ports`
// prints a list of them.
type portSummary struct {
	Port     string       `json:"port"` // as in mlx5_0/1
	Layer    hw.LinkLayer `json:"layer"`
	Subnet   string       `json:"subnet,omitempty"`   // InfiniBand: the prefix of the GIDs
	PKeys    []uint16     `json:"pkeys,omitempty"`    // InfiniBand
	Families []hw.Family  `json:"families,omitempty"` // RoCE: of the addresses
	MTU      int          `json:"mtu,omitempty"`      // the active one, 0 when unknown
}

// The bounds of what another host may print.
const (
	maxSummaries    = 256
	maxSummaryBytes = 64 << 10
	maxName         = 80
	maxFamilies     = 8
)

// summaries describes the ports that ibrun can use.
func (h *Host) summaries() []portSummary {
	list := []portSummary{}
	h.forEachUsable(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		s := portSummary{Port: portName(d, p), Layer: p.LinkLayer, MTU: h.MTUs[portName(d, p)].Active}
		if p.LinkLayer == hw.LinkInfiniBand {
			s.PKeys = slices.DeleteFunc(slices.Clone(p.PKeys), func(k uint16) bool { return k&^fullMember == 0 })
		}
		for _, g := range p.GIDChoices(hw.GIDRequest{}) {
			if p.LinkLayer == hw.LinkInfiniBand {
				s.Subnet = subnetOf(g).String()
				break
			}
			s.Families = append(s.Families, g.Family())
		}
		list = append(list, s)
		return nil
	})
	return list[:min(len(list), maxSummaries)]
}

// subnetOf returns the prefix of the GIDs of an InfiniBand subnet.
func subnetOf(g hw.GIDChoice) netip.Prefix {
	return netip.PrefixFrom(g.Addr, infiniBandPrefix).Masked()
}

// parseSummaries parses a line that another host printed. It escapes what a terminal would take for a command.
func parseSummaries(line string) ([]portSummary, error) {
	var list []portSummary
	if len(line) > maxSummaryBytes {
		return nil, fmt.Errorf("a list of ports has %d bytes, more than %d", len(line), maxSummaryBytes)
	}
	if err := json.Unmarshal([]byte(line), &list); err != nil {
		return nil, fmt.Errorf("list of ports: %w", err)
	}
	if len(list) > maxSummaries {
		return nil, fmt.Errorf("%d ports are listed, more than %d", len(list), maxSummaries)
	}
	for i := range list {
		s := &list[i]
		s.Families = s.Families[:min(len(s.Families), maxFamilies)]
		for _, text := range []*string{&s.Port, (*string)(&s.Layer), &s.Subnet} {
			*text = printableStart(*text, maxName)
		}
		for k := range s.Families {
			s.Families[k] = hw.Family(printableStart(string(s.Families[k]), maxName))
		}
	}
	return list, nil
}

// printableStart returns the first bytes of a text from another host, without what a terminal would take for a command.
func printableStart(text string, most int) string { return printable.Line(text[:min(len(text), most)]) }

// String returns the name of the port and what it is connected to.
func (s portSummary) String() string {
	switch {
	case s.Layer == hw.LinkInfiniBand:
		return fmt.Sprintf("%s (InfiniBand subnet %s, partitions %s)", s.Port, orNone(s.Subnet), keyList(s.PKeys))
	case s.Layer == hw.LinkEthernet && len(s.Families) == 0:
		return s.Port + " (RoCE without an address)"
	case s.Layer == hw.LinkEthernet:
		words := make([]string, len(s.Families))
		for i, f := range s.Families {
			words[i] = fmt.Sprintf("%q", string(f))
		}
		return fmt.Sprintf("%s (RoCE, addresses %s)", s.Port, strings.ReplaceAll(strings.Join(words, ", "), `"`, ""))
	}
	return s.Port + " (" + string(s.Layer) + ")"
}

// reaches reports whether two ports may reach each other, as far as their hosts know.
func (s portSummary) reaches(o portSummary) bool {
	if s.Layer != o.Layer {
		return false
	}
	if s.Layer != hw.LinkInfiniBand {
		return slices.ContainsFunc(s.Families, func(f hw.Family) bool { return slices.Contains(o.Families, f) })
	}
	return s.Subnet == o.Subnet && slices.ContainsFunc(s.PKeys, func(a uint16) bool {
		return slices.ContainsFunc(o.PKeys, func(b uint16) bool { return a&^fullMember == b&^fullMember && (a|b)&fullMember != 0 })
	})
}

// keyList formats partition keys.
func keyList(keys []uint16) string {
	const shown = 8
	var words []string
	for _, k := range keys[:min(len(keys), shown)] {
		words = append(words, fmt.Sprintf("0x%04x", k))
	}
	if len(keys) > shown {
		words = append(words, fmt.Sprintf("and %d more", len(keys)-shown))
	}
	return orNone(strings.Join(words, ", "))
}

// forEachUsable runs a check for each active port of a device that this process can open and ibrun supports.
func (h *Host) forEachUsable(check func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding) (all []Finding) {
	for i := range h.Top.RDMA {
		d := &h.Top.RDMA[i]
		if d.OtherNetns || d.AccessError != nil || !supported(d) {
			continue
		}
		for j := range d.Ports {
			if p := &d.Ports[j]; p.State == hw.PortActive {
				all = append(all, check(d, p)...)
			}
		}
	}
	return all
}

// supported reports whether ibrun supports the type of a device: neither iWARP nor protocols of their own.
func supported(d *hw.RDMADevice) bool { return d.Type == hw.NodeCA || d.Type == "" }

// portPartition checks whether InfiniBand ports are full members of the partition that is to be used.
func portPartition(h *Host) []Finding {
	want, set, err := tunables.RDMAPKey.FromEnv(h.Getenv)
	if err != nil {
		return infoFinding("the partition to use is unknown: %v", err) // reported by the check of settings
	}
	all := h.forEachUsable(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := portName(d, p)
		keys := slices.DeleteFunc(slices.Clone(p.PKeys), func(k uint16) bool {
			return k&^fullMember == 0 || set && k&^fullMember != uint16(want)&^fullMember
		})
		full := slices.ContainsFunc(keys, func(k uint16) bool { return k&fullMember != 0 })
		const join = "on the node of the subnet manager: add =full to the port in partitions.conf, and restart opensm"
		switch {
		case p.LinkLayer != hw.LinkInfiniBand:
			return okFinding("%s is a port of %s, which has no partitions", name, p.LinkLayer)
		case len(p.PKeys) == 0 && (!h.Live || h.jobsUse(name)): // the device may tell what /sys does not
			return infoFinding("the partitions of %s are unknown", name)
		case len(keys) == 0 && set:
			return newFinding(Warning, fmt.Sprintf("%s=0x%04x, but %s is in the partitions %s", tunables.RDMAPKey.Variable, want, name,
				keyList(p.PKeys)), "ibrun uses TCP instead of this port", "unset "+tunables.RDMAPKey.Variable+"   # or "+join)
		case len(keys) == 0:
			return newFinding(Warning, name+" is in no partition", "ibrun uses TCP instead of this port", join)
		case !full && set:
			return newFinding(Warning, fmt.Sprintf("%s=0x%04x, and %s is a limited member of this partition",
				tunables.RDMAPKey.Variable, want, name),
				"two limited members do not reach each other: such nodes use TCP", join)
		case !full:
			return newFinding(Warning, fmt.Sprintf("%s is a limited member of all its partitions: %s", name, keyList(keys)),
				"two limited members do not reach each other: such nodes use TCP", join)
		}
		return okFinding("%s is in the partitions %s", name, keyList(keys))
	})
	if all == nil {
		return infoFinding("there is no active RDMA port that ibrun can use")
	}
	return all
}

// maxSubnets is how many subnets ibrun opens a device in.
const maxSubnets = 3

// portFabric checks whether the ports of this host are connected to one kind of network.
func portFabric(h *Host) []Finding {
	ports := h.summaries()
	var infiniBand, ethernet []string
	subnets := map[string][]string{} // the ports of each
	for _, s := range ports {
		subnet := "InfiniBand subnet " + s.Subnet
		if s.Layer == hw.LinkInfiniBand {
			infiniBand = append(infiniBand, s.Port)
		} else {
			ethernet = append(ethernet, s.Port)
			subnet = "IP network " + h.Networks[s.Port].String()
			if !h.Networks[s.Port].IsValid() {
				continue
			}
		}
		subnets[subnet] = append(subnets[subnet], s.Port)
	}
	if len(ports) == 0 {
		return infoFinding("there is no active RDMA port that ibrun can use")
	}
	if chosen := h.Getenv(tunables.RDMADevices); chosen != "" {
		return okFinding("%s chooses the devices", tunables.RDMADevices)
	}
	best := h.Top.FabricCandidates()
	fix := fmt.Sprintf("export %s=%s   # on all nodes, the devices of the network that they share", tunables.RDMADevices,
		strings.Join(slices.Collect(func(yield func(string) bool) {
			for _, c := range best[:min(len(best), 1)] {
				yield(c.String())
			}
		}), ","))
	words := make([]string, 0, len(subnets))
	for _, name := range sortedKeys(subnets) {
		words = append(words, name+": "+strings.Join(subnets[name], ", "))
	}
	switch {
	case len(infiniBand) > 0 && len(ethernet) > 0:
		return newFinding(Warning, fmt.Sprintf("this host has InfiniBand (%s) and Ethernet (%s)", strings.Join(infiniBand, ", "),
			strings.Join(ethernet, ", ")), "nodes that have only one of them in common use that one, nodes with none use TCP: the "+
			"speed differs between pairs", fix)
	case len(subnets) > maxSubnets:
		return newFinding(Warning, fmt.Sprintf("this host is in %d subnets (%s)", len(subnets), strings.Join(words, "; ")),
			fmt.Sprintf("ibrun uses at most %d of them", maxSubnets), fix)
	case len(subnets) > 1 && len(infiniBand) > 0:
		return newFinding(Warning, "this host is in several subnets ("+strings.Join(words, "; ")+")",
			"nodes of different InfiniBand subnets use TCP: the speed differs between pairs", fix)
	case len(subnets) > 1:
		return newFinding(Info, "this host is in several subnets ("+strings.Join(words, "; ")+")",
			"two nodes use one that both are in, if there is one, and otherwise a route", fix)
	}
	return okFinding("all active RDMA ports are on one network")
}

// reachFabric checks whether RDMA devices of this host and of others can reach each other.
func reachFabric(h *Host) []Finding {
	here := h.summaries()
	return h.forEachLogin("the RDMA devices", func(p Peer) []Finding {
		if p.PortsErr != nil {
			return infoFinding("the RDMA devices of %s are unknown: %v", p.Name, p.PortsErr)
		}
		const why = "ranks on these two hosts use TCP"
		both := fmt.Sprintf("this host has %s, %s has %s", summaryList(here), p.Name, summaryList(p.Ports))
		switch {
		case len(here) == 0 && len(p.Ports) == 0:
			return okFinding("neither this host nor %s has an RDMA port that ibrun can use", p.Name)
		case len(here) == 0 || len(p.Ports) == 0:
			return newFinding(Warning, both, why, "ibrun doctor   # on the host without a port, says why")
		}
		for _, a := range here {
			for _, b := range p.Ports {
				if a.reaches(b) {
					return okFinding("%s and %s of %s are on the same kind of network", a.Port, b.Port, p.Name)
				}
			}
		}
		return newFinding(Warning, both+": no two of them reach each other", why,
			"connect the two to one network: the same subnet, partition, and kind of address")
	})
}

// summaryList lists ports.
func summaryList(list []portSummary) string {
	const shown = 4
	var words []string
	for _, s := range list[:min(len(list), shown)] {
		words = append(words, s.String())
	}
	if len(list) > shown {
		words = append(words, fmt.Sprintf("and %d more", len(list)-shown))
	}
	if words == nil {
		return "no RDMA port that ibrun can use"
	}
	return strings.Join(words, ", ")
}
