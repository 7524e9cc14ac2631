package hw

import (
	"cmp"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// PCIDevice is a function of a PCI device, or a bridge. IDs are hexadecimal, as lspci -n writes them.
type PCIDevice struct {
	Address   string `json:"address"`             // domain:bus:slot.function, 0000:c1:00.0
	Class     string `json:"class"`               // 0200; the programming interface is left out
	ID        string `json:"id"`                  // vendor and device: 15b3:1017
	Subsystem string `json:"subsystem,omitempty"` // vendor and device of the board
	Driver    string `json:"driver,omitempty"`

	// Parent is the address of the bridge above, "" directly below the root complex; Root is the kernel's name for that:
	// pci0000:c0. Both are "" when unknown.
	Parent string `json:"parent,omitempty"`
	Root   string `json:"root,omitempty"`

	Link   Link   `json:"link"`
	PhysFn string `json:"physfn,omitempty"` // of a virtual function, the physical one

	NUMA     int   `json:"numa"`      // the NUMA node it is attached to, -1 when that is unknown
	LocalPUs []int `json:"local_pus"` // the PUs near it; nil when unknown

	Problems []string `json:"problems,omitempty"`
}

// Link is the PCI Express link of a device, in each direction. Fields are 0 when unknown.
type Link struct {
	Speed    float64 `json:"speed"` // GT/s per lane
	Width    int     `json:"width"` // lanes
	MaxSpeed float64 `json:"max_speed"`
	MaxWidth int     `json:"max_width"`
}

const dirPCI = "sys/bus/pci/devices/"

// sortPCI sorts the devices in tree order: by the PUs near them, then by the chain of bridges above them.
func (r *deviceReader) sortPCI() {
	position, parent := map[int]int{}, map[string]string{}
	for i, pu := range r.top.PUs {
		position[pu.ID] = i
	}
	for _, d := range r.top.PCI {
		parent[d.Address] = d.Parent
	}
	type key struct {
		last, size int
		chain      []string
	}
	keys := map[string]key{}
	for _, d := range r.top.PCI {
		k := key{len(position), len(position), nil}
		if len(d.LocalPUs) > 0 {
			k.last, k.size = 0, len(d.LocalPUs)
		}
		for _, id := range d.LocalPUs {
			k.last = max(k.last, position[id]+1)
		}
		for at := d.Address; at != "" && len(k.chain) < 256; at = parent[at] {
			k.chain = append(k.chain, at)
		}
		slices.Reverse(k.chain)
		keys[d.Address] = k
	}
	slices.SortFunc(r.top.PCI, func(a, b PCIDevice) int {
		x, y := keys[a.Address], keys[b.Address]
		return cmp.Or(cmp.Compare(x.last, y.last), cmp.Compare(x.size, y.size), slices.CompareFunc(x.chain, y.chain, comparePCI))
	})
}

// readPCIDevice reads one PCI function.
func (r *deviceReader) readPCIDevice(address string) PCIDevice {
	dir := dirPCI + address + "/"
	d := PCIDevice{
		Address:   address,
		Class:     r.readPCIClass(dir + "class"),
		ID:        r.readPCIID(dir, "vendor", "device"),
		Subsystem: r.readPCIID(dir, "subsystem_vendor", "subsystem_device"),
		Driver:    r.linkTarget(dir + "driver"),
		PhysFn:    r.linkTarget(dir + "physfn"),
		Link: Link{
			Speed:    parseFile(&r.reader, dir+"current_link_speed", parseSpeed),
			Width:    parseFile(&r.reader, dir+"current_link_width", parseWidth),
			MaxSpeed: parseFile(&r.reader, dir+"max_link_speed", parseSpeed),
			MaxWidth: parseFile(&r.reader, dir+"max_link_width", parseWidth),
		},
	}
	ancestors := r.pciAncestors(dir[:len(dir)-1])
	for _, name := range ancestors {
		if isPCIAddress(name) && name != address {
			d.Parent = name
			break
		}
	}
	if len(ancestors) > 0 {
		d.Root = ancestors[len(ancestors)-1]
	}
	d.NUMA, d.LocalPUs = r.readLocality(dir[:len(dir)-1])
	return d
}

// readPCIClass reads a class such as 0x020000 and returns 0200.
func (r *deviceReader) readPCIClass(name string) string {
	text, ok := r.readText(name)
	if !ok {
		return ""
	}
	n, err := parseUint(text, 24)
	if err == nil && len(text) != len("0x020000\n") {
		err = malformed("class", text)
	}
	r.addProblem(name, err)
	if err != nil || n == 0 && text != "0x000000\n" {
		return ""
	}
	return text[2:6]
}

// readPCIID reads two numbers of 16 bits and returns them as 15b3:1017.
func (r *deviceReader) readPCIID(dir, vendor, device string) string {
	var words [2]string
	for i, name := range []string{vendor, device} {
		text, ok := r.readText(dir + name)
		if !ok {
			return ""
		}
		_, err := parseUint(text, 16)
		if err == nil && (len(text) != len("0x15b3\n") || text[:2] != "0x") {
			err = malformed("number", text)
		}
		r.addProblem(dir+name, err)
		if err != nil {
			return ""
		}
		words[i] = text[2:6]
	}
	return words[0] + ":" + words[1]
}

// pciAncestors returns the PCI functions on the path of a device in the sysfs tree, the nearest first, and the root
// complex last. It returns nil for devices outside the PCI tree, and in a copied tree without links.
func (r *deviceReader) pciAncestors(dir string) []string {
	target, err := fs.ReadLink(r.fsys, dir)
	if err != nil {
		return nil
	}
	var ancestors []string
	for _, name := range slices.Backward(strings.Split(target, "/")) {
		switch {
		case isPCIAddress(name):
			ancestors = append(ancestors, name)
		case strings.HasPrefix(name, "pci") && len(ancestors) > 0:
			return append(ancestors, name)
		}
	}
	return ancestors
}

// isPCIAddress reports whether name is an address domain:bus:slot.function, such as 0000:c1:00.0.
func isPCIAddress(name string) bool {
	_, ok := parsePCIAddress(name)
	return ok
}

// parsePCIAddress returns domain, bus, slot and function of an address.
func parsePCIAddress(name string) (parts [4]uint64, ok bool) {
	part := strings.Split(name, ":")
	if len(part) != 3 {
		return parts, false
	}
	slot, function, _ := strings.Cut(part[2], ".")
	for i, digits := range []string{part[0], part[1], slot, function} {
		n, err := strconv.ParseUint(digits, 16, 32)
		if err != nil {
			return parts, false
		}
		parts[i] = n
	}
	return parts, true
}

// comparePCI compares addresses by number. Domains of more than 16 bits are last.
func comparePCI(a, b string) int {
	x, _ := parsePCIAddress(a)
	y, _ := parsePCIAddress(b)
	return cmp.Or(slices.Compare(x[:], y[:]), cmp.Compare(a, b))
}

// parseSpeed parses a link speed such as "16.0 GT/s PCIe" or "8 GT/s". It returns 0 if the kernel does not know it.
func parseSpeed(text string) (float64, error) {
	body, whole := strings.CutSuffix(text, "\n")
	number, _, found := strings.Cut(body, " GT/s")
	speed, err := strconv.ParseFloat(number, 64)
	switch {
	case whole && strings.HasPrefix(body, "Unknown"):
		return 0, nil
	case !whole || !found || err != nil || !(speed >= 0 && speed < 1e6):
		return 0, malformed("link speed", text)
	}
	return speed, nil
}

// parseWidth parses the number of lanes. The kernel writes 255 for unknown; parseWidth returns 0.
func parseWidth(text string) (int, error) {
	n, err := parseUint(text, 8)
	if n == 255 {
		n = 0
	}
	return int(n), err
}
