package hw_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
)

func TestPathBetween(t *testing.T) {
	top := read(t, "two-sockets")
	spot := map[string]hw.Location{}
	for _, d := range top.PCI {
		spot[d.Address[5:]] = d.Location()
	}
	spot["unknown"] = hw.Location{NUMA: -1}
	spot["elsewhere"] = hw.Location{PCI: "0000:ff:00.0", NUMA: 1}
	for _, c := range []struct {
		a, b string
		want hw.Path
	}{
		{"13:00.0", "13:00.0", hw.PathSelf},
		{"13:00.0", "14:00.0", hw.PathPIX},     // ports of a switch
		{"19:00.0", "19:00.1", hw.PathPIX},     // functions of one device
		{"13:00.0", "19:00.0", hw.PathNode},    // other host bridge
		{"13:00.0", "83:00.0", hw.PathSys},     // other socket
		{"13:00.0", "unknown", hw.PathUnknown}, // no PCI device with that address
		{"83:00.0", "elsewhere", hw.PathNode},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := top.PathBetween(spot[pair[0]], spot[pair[1]]); got != c.want {
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
		machine string
		pus     []int
		spot    hw.Location
		want    hw.Path
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
		if got := read(t, c.machine).PathFrom(c.pus, c.spot); got != c.want {
			t.Errorf("%s: from %v to %+v is %s, want %s", c.machine, c.pus, c.spot, got, c.want)
		}
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

func TestAssignDevices(t *testing.T) {
	for _, c := range []struct {
		name, machine string
		ranks         string // the PUs of each
		devices       string
		want          string
	}{
		{"each to its socket", "two-sockets", "0 2 1 3", "10:00.0/a@0 80:00.0/b@1", "a a b b"},
		{"fair among equals", "two-sockets", "0 2 4 6 1", "10:00.0/a@0 11:00.0/b@0 80:00.0/c@1", "a b a b c"},
		{"unbound ranks over all", "two-sockets", "0-15 0-15 0-15", "10:00.0/a@0 80:00.0/b@1", "a b a"},
		{"cards before their ports", "two-sockets", "0 2 4 6", "10:00.0/a@0 10:00.1/b@0 11:00.0/c@0 11:00.1/d@0", "a c b d"},
		{"ports of one device", "two-sockets", "0 2", "10:00.0/a:2@0 10:00.0/a:1@0", "a:1 a:2"},
		{"order of the list does not count", "two-sockets", "0 2", "11:00.0/b@0 10:00.0/a@0", "a b"},
		{"crossing sockets", "two-sockets", "1 3", "10:00.0/a@0 11:00.0/b@0", "a! b!"},
		{"the nearer of other nodes", "dies", "0-1 2-3 4-5", "10:00.0/a@1 80:00.0/b@2", "a a b"},
		{"unknown before another socket", "dies", "0 0", "10:00.0/a@-1 80:00.0/b@2", "a a"},
		{"unknown and near", "dies", "0 4", "10:00.0/a@-1 80:00.0/b@2", "a b"},
		{"all unknown", "dies", "0 4 6", "10:00.0/a@-1 80:00.0/b@-1", "a b a"},
		{"none", "dies", "0 4", "", ""},
	} {
		top := read(t, c.machine)
		var ranks [][]int
		for _, word := range strings.Fields(c.ranks) {
			var pus []int
			for pu := range 16 {
				if word == fmt.Sprint(pu) || word == "0-15" || strings.HasPrefix(word, fmt.Sprint(pu)+"-") {
					pus = append(pus, pu)
				}
			}
			ranks = append(ranks, pus)
		}
		var devices []hw.Candidate
		for _, word := range strings.Fields(c.devices) {
			devices = append(devices, parseCandidate(word))
		}
		choices := top.AssignDevices(ranks, devices)
		var got []string
		for _, choice := range choices {
			word := choice.String()
			if choice.Warning != "" {
				word += "!"
			}
			got = append(got, word)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: devices are %q, want %q", c.name, got, c.want)
		}
		slices.Reverse(devices)
		if again := top.AssignDevices(ranks, devices); !reflect.DeepEqual(again, choices) {
			t.Errorf("%s: with the devices in another order, the choice is %v instead of %v", c.name, again, choices)
		}
	}
}

func TestAssignDevicesWarning(t *testing.T) {
	choices := read(t, "two-sockets").AssignDevices([][]int{{0}, {1, 3}}, []hw.Candidate{parseCandidate("10:00.0/mlx5_0:1@0")})
	const want = "rank 1 on PUs 1,3 is in another package than mlx5_0:1, the nearest device (NUMA node 0): " +
		"its traffic crosses sockets"
	if choices[0].Warning != "" || choices[1].Warning != want {
		t.Errorf("warnings are %q and %q, want none and %q", choices[0].Warning, choices[1].Warning, want)
	}
	if near := read(t, "two-sockets").Nearest([]int{2}, read(t, "two-sockets").GPUCandidates()); len(near) != 2 ||
		near[0].Name != "card0" || near[1].Name != "card1" {
		t.Errorf("the GPUs nearest to PU 2 are %v, want card0 and card1", near)
	}
}

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
