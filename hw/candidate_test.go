package hw_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
)

// A device that can only display is not a candidate.
func TestGPUCandidates(t *testing.T) {
	top := &hw.Topology{}
	for _, d := range []struct{ address, class, id string }{
		{"a", "0300", "1a03:2000"}, // a management controller
		{"b", "0300", "10de:2204"}, {"c", "0302", "10de:2330"}, {"d", "1200", "1da3:1020"}, {"e", "0300", "1af4:1050"},
	} {
		top.PCI = append(top.PCI, hw.PCIDevice{Address: d.address, Class: d.class, ID: d.id})
		top.GPUs = append(top.GPUs, hw.Device{Name: d.address, PCI: d.address, ID: d.id})
	}
	got := ""
	for _, c := range top.GPUCandidates() {
		got += c.Name
	}
	if got != "bcd" {
		t.Errorf("candidates %s, want bcd", got)
	}
}

// parseCandidate parses a candidate with its location: name@node, or name:port@node after the card: 41/name:1@0.
func parseCandidate(text string) hw.Candidate {
	var c hw.Candidate
	text, node, _ := strings.Cut(text, "@")
	card, name, _ := strings.Cut(text, "/")
	name, port, _ := strings.Cut(name, ":")
	if _, err := fmt.Sscan(node, &c.NUMA); err != nil {
		panic(err)
	}
	if port != "" {
		c.Port = int(port[0] - '0')
	}
	c.Name, c.PCI = name, "0000:"+card
	return c
}

// candidateNames returns the names of candidates.
func candidateNames(list []hw.Candidate) string {
	var words []string
	for _, c := range list {
		words = append(words, c.String())
	}
	return strings.Join(words, " ")
}

// A port that is down keeps its rail number. Devices of other network namespaces have none.
func TestRails(t *testing.T) {
	port := func(n int, state string) hw.RDMAPort { return hw.RDMAPort{Number: n, State: state} }
	top := &hw.Topology{RDMA: []hw.RDMADevice{
		{Name: "mlx5_1", PCI: "0000:41:00.0", Ports: []hw.RDMAPort{port(1, hw.PortActive)}},
		{Name: "mlx5_0", PCI: "0000:10:00.0", Ports: []hw.RDMAPort{port(1, "DOWN"), port(2, hw.PortActive)}},
		{Name: "mlx5_2", PCI: "0000:20:00.0", OtherNetns: true, Ports: []hw.RDMAPort{port(1, hw.PortActive)}},
	}}
	if got := candidateNames(top.Rails()); got != "mlx5_0:1 mlx5_0:2 mlx5_1:1" {
		t.Errorf("rails %s", got)
	}
}

// TestFabricCandidates: ports of one link layer are assigned, that of the fastest port.
func TestFabricCandidates(t *testing.T) {
	device := func(name string, layer hw.LinkLayer, rate uint64, state string) hw.RDMADevice {
		return hw.RDMADevice{Name: name, Ports: []hw.RDMAPort{{Number: 1, State: state, LinkLayer: layer, Rate: rate}}}
	}
	iWARP := device("w", hw.LinkEthernet, 400, hw.PortActive)
	iWARP.Type = hw.NodeRNIC
	for want, devices := range map[string][]hw.RDMADevice{
		"[e:1]":     {iWARP, device("e", hw.LinkInfiniBand, 56, hw.PortActive)},
		"[]":        nil,
		"[a:1 b:1]": {device("a", hw.LinkEthernet, 25, hw.PortActive), device("b", hw.LinkEthernet, 100, hw.PortActive)},
		"[b:1]":     {device("a", hw.LinkEthernet, 100, hw.PortActive), device("b", hw.LinkInfiniBand, 100, hw.PortActive)},
		"[a:1]":     {device("a", hw.LinkEthernet, 200, hw.PortActive), device("b", hw.LinkInfiniBand, 100, hw.PortActive)},
		"[c:1]":     {device("c", hw.LinkEthernet, 25, hw.PortActive), device("d", hw.LinkInfiniBand, 400, "DOWN")},
	} {
		top := hw.Topology{RDMA: devices}
		if got := fmt.Sprint(top.FabricCandidates()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
