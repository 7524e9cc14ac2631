package hw

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Candidate is a device that a rank may use. For an RDMA device with several ports it is one port. The
// launcher assigns candidates to ranks. Package fabric/rdma has a list of its own, in
// internal/devices. From that it chooses the ports that it uses.
type Candidate struct {
	Name string `json:"name"`
	Port int    `json:"port,omitempty"` // from 1; 0 for devices without ports
	Location
}

// String returns the name that UCX and NCCL use: mlx5_0:1.
func (c Candidate) String() string {
	if c.Port == 0 {
		return c.Name
	}
	return c.Name + ":" + strconv.Itoa(c.Port)
}

// cardKey identifies the PCI card. The ports of a card may be functions of it, and they share its link.
func (c Candidate) cardKey() string {
	slot, _, _ := strings.Cut(c.PCI, ".")
	return cmp.Or(slot, c.Name)
}

// RDMACandidates returns the ports that can carry traffic: active ports of devices that this process can open, as far as
// that is known.
func (t *Topology) RDMACandidates() []Candidate {
	var all []Candidate
	for i := range t.RDMA {
		d := &t.RDMA[i]
		if d.OtherNetns || d.AccessError != nil {
			continue
		}
		for _, p := range d.Ports {
			if p.State == PortActive {
				all = append(all, Candidate{d.Name, p.Number, d.Location()})
			}
		}
	}
	return all
}

// FabricCandidates returns those of RDMACandidates that ranks can use and that have the link layer of the fastest of them; of two
// that are equally fast, InfiniBand. Ranks to which these ports are assigned do not use InfiniBand and Ethernet side by side.
// Ports of iWARP, and of protocols of their own, have no queue pairs that ranks can use.
func (t *Topology) FabricCandidates() []Candidate {
	layers := map[string]LinkLayer{}
	var best LinkLayer
	var rate uint64
	all := slices.DeleteFunc(t.RDMACandidates(), func(c Candidate) bool {
		return slices.ContainsFunc(t.RDMA, func(d RDMADevice) bool { return d.Name == c.Name && d.Type != NodeCA && d.Type != "" })
	})
	for _, c := range all {
		p := t.rdmaPort(c)
		layers[c.String()] = p.LinkLayer
		if best == "" || p.Rate > rate || p.Rate == rate && p.LinkLayer == LinkInfiniBand {
			best, rate = p.LinkLayer, p.Rate
		}
	}
	return slices.DeleteFunc(all, func(c Candidate) bool { return layers[c.String()] != best })
}

// rdmaPort returns the port of a candidate.
func (t *Topology) rdmaPort(c Candidate) RDMAPort {
	for i := range t.RDMA {
		for _, p := range t.RDMA[i].Ports {
			if t.RDMA[i].Name == c.Name && p.Number == c.Port {
				return p
			}
		}
	}
	return RDMAPort{}
}

// GPUCandidates returns the GPUs that can compute. It leaves out the display of a server's management controller and
// that of a virtual machine.
func (t *Topology) GPUCandidates() []Candidate {
	var all []Candidate
	for i := range t.GPUs {
		d := &t.GPUs[i]
		onlyShows := slices.ContainsFunc(t.PCI, func(p PCIDevice) bool {
			return p.Address == d.PCI && p.Class == classVGA && !slices.Contains(computeVendors, vendorOf(d.ID))
		})
		if !onlyShows {
			all = append(all, Candidate{Name: d.Name, Location: d.Location()})
		}
	}
	return all
}

// classVGA is the PCI class of displays with a screen.
const classVGA = "0300"

// computeVendors are the PCI vendors whose display devices can compute: AMD, NVIDIA, Intel.
var computeVendors = []string{"1002", "10de", "8086"}

// vendorOf returns the first half of a PCI device's ID.
func vendorOf(id string) string {
	vendor, _, _ := strings.Cut(id, ":")
	return vendor
}

// sortedByAddress returns the candidates sorted by PCI address, name and port.
func sortedByAddress(candidates []Candidate) []Candidate {
	return slices.SortedFunc(slices.Values(candidates), func(a, b Candidate) int {
		return cmp.Or(comparePCI(a.PCI, b.PCI), compareNumbered(a.Name, b.Name), cmp.Compare(a.Port, b.Port))
	})
}

// PCIRootCandidates returns the PCI root complexes that have devices below them, by bus number: 0000:3a.
func (t *Topology) PCIRootCandidates() []Candidate {
	var all []Candidate
	for i := range t.PCI {
		d := &t.PCI[i]
		name, ok := strings.CutPrefix(d.Root, "pci")
		bridge := strings.HasPrefix(d.Class, "06")
		if ok && !bridge && !slices.ContainsFunc(all, func(c Candidate) bool { return c.Name == name }) {
			all = append(all, Candidate{Name: name, Location: d.Location()})
		}
	}
	slices.SortFunc(all, func(a, b Candidate) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Rails returns the ports of all RDMA devices, sorted by PCI address. Rail K is the port with index K. On nodes with the
// same hardware, a rail is the same port; in a network with rails it is connected to the same switch. To keep the
// numbers equal on all nodes, the list includes ports that are down and devices that this process cannot open. It leaves
// out devices of other network namespaces.
func (t *Topology) Rails() []Candidate {
	var all []Candidate
	for i := range t.RDMA {
		d := &t.RDMA[i]
		for _, p := range d.Ports {
			if !d.OtherNetns {
				all = append(all, Candidate{d.Name, p.Number, d.Location()})
			}
		}
	}
	return sortedByAddress(all)
}
