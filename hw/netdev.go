package hw

import (
	"io/fs"
	"path"
	"slices"
)

// Netdev is a network interface.
type Netdev struct {
	Name   string `json:"name"`
	MAC    string `json:"mac,omitempty"`
	MTU    int    `json:"mtu"`   // bytes
	State  string `json:"state"` // the kernel's word: up, down, unknown
	Speed  uint64 `json:"speed"` // bits per second, 0 when unknown or down
	Port   int    `json:"port"`  // of a device with several, from 0
	Master string `json:"master,omitempty"`

	PCI      string `json:"pci,omitempty"` // address of the PCI function, none for a virtual interface
	NUMA     int    `json:"numa"`          // the NUMA node it is attached to, -1 when that is unknown
	LocalPUs []int  `json:"local_pus"`     // the PUs near it; nil when unknown

	Problems []string `json:"problems,omitempty"`
}

const classNet = "sys/class/net"

// readNetdevs reads all network interfaces.
func (r *deviceReader) readNetdevs() {
	entries, err := fs.ReadDir(r.fsys, classNet)
	if !notProvided(err) {
		r.addProblem(classNet, err)
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			continue // bonding_masters
		}
		var n Netdev
		problems := r.collectProblems(func() { n = r.readNetdev(entry.Name()) })
		n.Problems = problems
		r.top.Netdevs = append(r.top.Netdevs, n)
	}
	slices.SortFunc(r.top.Netdevs, func(a, b Netdev) int { return compareNumbered(a.Name, b.Name) })
}

// readNetdev reads one network interface.
func (r *deviceReader) readNetdev(name string) Netdev {
	dir := path.Join(classNet, name)
	n := Netdev{
		Name:   name,
		MAC:    parseFile(&r.reader, dir+"/address", parseWord),
		MTU:    r.readInt(dir+"/mtu", 0),
		State:  parseFile(&r.reader, dir+"/operstate", parseWord),
		Speed:  uint64(max(0, r.readInt(dir+"/speed", 0))) * 1_000_000,
		Port:   max(0, r.readInt(dir+"/dev_port", 0)),
		Master: r.linkTarget(dir + "/master"),
	}
	if ancestors := r.pciAncestors(dir); len(ancestors) > 0 && isPCIAddress(ancestors[0]) {
		n.PCI = ancestors[0]
	} else if pci := r.linkTarget(dir + "/device"); isPCIAddress(pci) {
		n.PCI = pci
	}
	n.NUMA = -1
	if n.PCI != "" {
		n.NUMA, n.LocalPUs = r.readLocality(dir+"/device", dirPCI+n.PCI)
	}
	return n
}
