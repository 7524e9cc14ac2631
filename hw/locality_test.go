package hw_test

import (
	"testing"

	"github.com/ibrun/ibrun/hw"
)

func TestPathBetween(t *testing.T) {
	top := read(t, "two-sockets")
	location := map[string]hw.Location{}
	for _, d := range top.PCI {
		location[d.Address[5:]] = d.Location()
	}
	location["unknown"] = hw.Location{NUMA: -1}
	location["elsewhere"] = hw.Location{PCI: "0000:ff:00.0", NUMA: 1}
	for _, c := range []struct {
		a, b string
		want hw.Path
	}{
		{"13:00.0", "13:00.0", hw.PathSelf},
		{"13:00.0", "14:00.0", hw.PathPIX},     // ports of a switch
		{"19:00.0", "19:00.1", hw.PathPIX},     // functions of one device
		{"13:00.0", "19:00.0", hw.PathNode},    // other host bridge
		{"13:00.0", "83:00.0", hw.PathSys},     // other socket
		{"13:00.0", "unknown", hw.PathUnknown}, // neither PCI address nor NUMA node
		{"83:00.0", "elsewhere", hw.PathNode},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := top.PathBetween(location[pair[0]], location[pair[1]]); got != c.want {
				t.Errorf("between %s and %s is %s, want %s", pair[0], pair[1], got, c.want)
			}
		}
	}
	deep := &hw.Topology{PCI: []hw.PCIDevice{
		{Address: "a", Root: "r"}, {Address: "b", Parent: "a", Root: "r"}, {Address: "c", Parent: "b", Root: "r"},
		{Address: "d", Parent: "c", Root: "r"}, {Address: "e", Parent: "a", Root: "r"}, {Address: "f", Root: "r"},
		{Address: "g", Parent: "g"},
	}}
	for pair, want := range map[string]hw.Path{"de": hw.PathPXB, "df": hw.PathPHB, "dg": hw.PathUnknown, "gg": hw.PathSelf} {
		if got := deep.PathBetween(hw.Location{PCI: pair[:1], NUMA: -1}, hw.Location{PCI: pair[1:], NUMA: -1}); got != want {
			t.Errorf("between %s is %s, want %s", pair, got, want)
		}
	}
}

func TestPathFrom(t *testing.T) {
	for _, c := range []struct {
		machine  string
		pus      []int
		location hw.Location
		want     hw.Path
	}{
		{"two-sockets", []int{0}, hw.Location{NUMA: 0}, hw.PathPHB},
		{"two-sockets", []int{0}, hw.Location{NUMA: 1}, hw.PathSys},
		{"two-sockets", []int{0, 1}, hw.Location{NUMA: 1}, hw.PathPHB}, // one of them is near
		{"two-sockets", []int{0}, hw.Location{NUMA: -1}, hw.PathUnknown},
		{"two-sockets", nil, hw.Location{NUMA: 1}, hw.PathUnknown},
		{"two-sockets", []int{1}, hw.Location{NUMA: -1, LocalPUs: []int{1, 3}}, hw.PathPHB},
		{"two-sockets", []int{0}, hw.Location{NUMA: -1, LocalPUs: []int{1, 3}}, hw.PathSys},
		{"dies", []int{0}, hw.Location{NUMA: 1}, hw.PathNode},
		{"dies", []int{0}, hw.Location{NUMA: 2}, hw.PathSys},
		{"offline", []int{6}, hw.Location{NUMA: 1}, hw.PathPHB}, // a node without PUs
	} {
		if got := read(t, c.machine).PathFrom(c.pus, c.location); got != c.want {
			t.Errorf("%s: from %v to %+v is %s, want %s", c.machine, c.pus, c.location, got, c.want)
		}
	}
}
