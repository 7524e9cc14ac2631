package hw

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const classRDMA = "sys/class/infiniband"

// ReadRDMA reads the RDMA devices of the node whose root directory is fsys, for example os.DirFS("/"). The devices are
// sorted by number. A tree without devices is not an error. A device with unreadable files is returned with the fields
// that could be read, and RDMADevice.Problems lists the rest. ReadRDMA fails only if the list of devices cannot be read.
//
// An interface that does not exist in sys/class/net is assumed to belong to another network namespace.
func ReadRDMA(fsys fs.FS) ([]RDMADevice, error) {
	r := deviceReader{reader: reader{fsys: fsys}}
	devices, err := r.readRDMA()
	if err != nil {
		return nil, fmt.Errorf("hw: list RDMA devices: %w", err)
	}
	return devices, nil
}

// readRDMA reads all RDMA devices.
func (r *deviceReader) readRDMA() ([]RDMADevice, error) {
	entries, err := fs.ReadDir(r.fsys, classRDMA)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var chars map[string][]CharDevice
	shared := r.collectProblems(func() { chars = r.readCharDevices() })
	var devices []RDMADevice
	for _, entry := range entries {
		var d RDMADevice
		problems := r.collectProblems(func() { d = r.readRDMADevice(entry.Name()) })
		d.Chars = slices.Concat(chars[d.Name], chars[""])
		d.Problems = slices.Concat(shared, problems)
		devices = append(devices, d)
	}
	slices.SortFunc(devices, func(a, b RDMADevice) int { return compareNumbered(a.Name, b.Name) })
	return devices, nil
}

// readRDMADevice reads one RDMA device.
func (r *deviceReader) readRDMADevice(name string) RDMADevice {
	dir := path.Join(classRDMA, name)
	d := RDMADevice{
		Name:         name,
		Type:         parseFile(&r.reader, dir+"/node_type", parseNodeType),
		NodeGUID:     parseFile(&r.reader, dir+"/node_guid", parseGUID),
		SysImageGUID: parseFile(&r.reader, dir+"/sys_image_guid", parseGUID),
		Firmware:     parseFile(&r.reader, dir+"/fw_ver", parseWord),
		BoardID:      parseFile(&r.reader, dir+"/board_id", parseWord),
		HCAType:      parseFile(&r.reader, dir+"/hca_type", parseWord),
	}
	uevent, _ := r.readText(dir + "/device/uevent")
	d.Driver = ueventValue(uevent, "DRIVER")
	d.PCI = cmp.Or(ueventValue(uevent, "PCI_SLOT_NAME"), r.pciFunctionOf(dir))
	parent := parseFile(&r.reader, dir+"/parent", parseWord) // the netdev below; only rxe has this file
	d.Provider = providerOf(d, parent)
	for _, number := range r.numericEntries(dir + "/ports") {
		d.Ports = append(d.Ports, r.readPort(dir, d.Type, number, parent))
	}
	r.readRDMALocality(&d, dir)
	return d
}

// parseNodeType parses a node type such as "1: CA".
func parseNodeType(text string) (NodeType, error) {
	n, _, err := parseNumbered(text)
	names := []NodeType{1: NodeCA, NodeSwitch, NodeRouter, NodeRNIC, NodeUSNIC, NodeUSNICUDP, NodeUnspecified}
	if err == nil && (n == 0 || n >= len(names)) {
		err = malformed("node type", text)
	}
	if err != nil {
		return "", err
	}
	return names[n], nil // by number: older kernels write 7: <unknown>
}

// providerByDriver maps kernel drivers to rdma-core's provider names where the two differ.
var providerByDriver = map[string]string{
	"mlx5_core": "mlx5", "mlx4_core": "mlx4", "ib_mthca": "mthca", "ice": "irdma", "i40e": "irdma", "idpf": "irdma",
	"bnxt_en": "bnxt_re", "qede": "qedr", "be2net": "ocrdma", "hns3": "hns", "enic": "usnic",
	"hfi1": "hfi1verbs", "ib_qib": "ipathverbs",
}

// providerOf returns rdma-core's name of the user-space driver. parent is the netdev below an rxe device.
func providerOf(d RDMADevice, parent string) string {
	driver, _, _ := strings.Cut(d.Driver, ".") // a subfunction of mlx5_core has the driver mlx5_core.sf
	switch {
	case driver != "":
		return cmp.Or(providerByDriver[driver], driver)
	case parent != "":
		return "rxe"
	case d.Type == NodeRNIC:
		return "siw" // the only iWARP device without hardware
	}
	return ""
}

// pciFunctionOf returns the address of the nearest PCI function above a device, or "".
func (r *deviceReader) pciFunctionOf(dir string) string {
	if ancestors := r.pciAncestors(dir); len(ancestors) > 0 && isPCIAddress(ancestors[0]) {
		return ancestors[0]
	}
	return ""
}

// readRDMALocality sets NUMA and LocalPUs. It reads them from the device, then from its netdevs, and for each of these
// from the PCI functions above.
func (r *deviceReader) readRDMALocality(d *RDMADevice, dir string) {
	d.NUMA = -1
	dirs := []string{dir}
	for _, p := range d.Ports {
		if p.Netdev != "" {
			dirs = append(dirs, "sys/class/net/"+p.Netdev)
		}
	}
	for _, dir := range dirs {
		sources := []string{dir + "/device"}
		if pci := r.pciFunctionOf(dir); pci != "" {
			sources = append(sources, dirPCI+pci)
		}
		numa, pus := r.readLocality(sources...)
		if d.NUMA < 0 && numa >= 0 || d.LocalPUs == nil {
			d.LocalPUs = pus
		}
		if d.NUMA < 0 {
			d.NUMA = numa
		}
	}
}

// readPort reads one port of a device.
func (r *deviceReader) readPort(device string, node NodeType, number int, parent string) RDMAPort {
	dir := fmt.Sprintf("%s/ports/%d", device, number)
	p := RDMAPort{
		Number:    number,
		State:     parseFile(&r.reader, dir+"/state", parseStateName),
		PhysState: parseFile(&r.reader, dir+"/phys_state", parseStateName),
		Rate:      parseFile(&r.reader, dir+"/rate", parseRate),
		LinkLayer: parseFile(&r.reader, dir+"/link_layer", parseLinkLayer),
		LID:       uint16(r.readUint(dir+"/lid", 16)),
		SMLID:     uint16(r.readUint(dir+"/sm_lid", 16)),
		CapMask:   uint32(r.readUint(dir+"/cap_mask", 32)),
	}
	p.LinkLayer = cmp.Or(p.LinkLayer, LinkUnknown)
	p.GIDs = r.readGIDs(dir, p.LinkLayer, node)
	for _, index := range r.numericEntries(dir + "/pkeys") {
		key := uint16(r.readUint(fmt.Sprintf("%s/pkeys/%d", dir, index), 16))
		if key != 0 {
			p.PKeys = append(p.PKeys, make([]uint16, max(0, index-len(p.PKeys)))...)
			p.PKeys = append(p.PKeys, key)
		}
	}
	p.Netdev = cmp.Or(parent, r.findPortNetdev(device, &p))
	return p
}

// parseStateName parses a state such as "4: ACTIVE" and returns the name.
func parseStateName(text string) (string, error) {
	_, name, err := parseNumbered(text)
	return name, err
}

// parseLinkLayer parses the link layer of a port.
func parseLinkLayer(text string) (LinkLayer, error) {
	word, err := parseWord(text)
	switch l := LinkLayer(word); l {
	case LinkInfiniBand, LinkEthernet, LinkUnknown:
		return l, err
	}
	return "", malformed("link layer", text)
}

// findPortNetdev returns the interface of the port's first GID, which the kernel derived from the MAC address of the
// interface. If GIDs have no interface (InfiniBand, older iWARP), it returns one of the interfaces below the PCI
// function, by dev_port, which counts from 0. A child of ib0 is named ib0.8001 and sorts after ib0.
func (r *deviceReader) findPortNetdev(device string, p *RDMAPort) string {
	netdev := ""
	for _, g := range p.GIDs {
		if g.Netdev != "" && !g.OtherNetns {
			return g.Netdev
		}
		netdev = cmp.Or(netdev, g.Netdev)
	}
	if netdev != "" {
		return netdev
	}
	for _, name := range r.readDirNames(device + "/device/net") {
		if text, ok := r.readText(device + "/device/net/" + name + "/dev_port"); ok && text == fmt.Sprintln(p.Number-1) {
			return name
		}
	}
	return ""
}

// readGIDs reads the GID table of a port and leaves out empty entries.
func (r *deviceReader) readGIDs(dir string, link LinkLayer, node NodeType) []GID {
	_, err := fs.Stat(r.fsys, dir+"/gid_attrs/types")
	typed := !errors.Is(err, fs.ErrNotExist) // since Linux 4.5
	var gids []GID
	for _, index := range r.numericEntries(dir + "/gids") {
		number := strconv.Itoa(index)
		g := GID{Index: index, Addr: parseFile(&r.reader, dir+"/gids/"+number, parseGID), Type: GIDInfiniBand}
		if !g.Addr.IsValid() || isEmptyGID(g.Addr.As16(), link) {
			continue
		}
		kind := "IB/RoCE v1"
		if typed {
			kind = parseFile(&r.reader, dir+"/gid_attrs/types/"+number, parseWord)
		}
		switch {
		case kind == "":
			continue // the entry was removed after its address was read
		case kind == string(GIDRoCEv2):
			g.Type = GIDRoCEv2
		case kind != "IB/RoCE v1":
			g.Type = GIDType(kind) // a newer protocol: listed, but never chosen
		case link == LinkEthernet && node == NodeCA:
			g.Type = GIDRoCEv1
		}
		g.Netdev = parseFile(&r.reader, dir+"/gid_attrs/ndevs/"+number, parseWord)
		g.OtherNetns = g.Netdev != "" && !r.hasNetdev(g.Netdev)
		gids = append(gids, g)
	}
	return gids
}

// isEmptyGID reports whether an entry is unused. On InfiniBand unused entries contain the subnet prefix.
func isEmptyGID(raw [16]byte, link LinkLayer) bool {
	if link == LinkInfiniBand {
		clear(raw[:8])
	}
	return raw == [16]byte{}
}

// hasNetdev reports whether the tree contains the interface. It returns true for a tree without sys/class/net.
func (r *deviceReader) hasNetdev(name string) bool {
	if _, err := fs.Stat(r.fsys, "sys/class/net"); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	_, err := fs.Stat(r.fsys, "sys/class/net/"+name)
	return !errors.Is(err, fs.ErrNotExist)
}

// readCharDevices returns the character devices by RDMA device. Those shared by all devices have the key "".
func (r *deviceReader) readCharDevices() map[string][]CharDevice {
	chars := map[string][]CharDevice{}
	for _, class := range []string{"sys/class/infiniband_verbs", "sys/class/infiniband_mad"} {
		for _, name := range r.readDirNames(class) {
			kind := strings.TrimRight(name, "0123456789")
			if kind == "uverbs" || kind == "umad" || kind == "issm" {
				owner := parseFile(&r.reader, path.Join(class, name, "ibdev"), parseWord)
				chars[owner] = append(chars[owner], r.readCharDevice(class, name, kind))
			}
		}
	}
	chars[""] = nil // drop devices of an unreadable owner; the problems list them
	if slices.Contains(r.readDirNames("sys/class/misc"), "rdma_cm") {
		chars[""] = []CharDevice{r.readCharDevice("sys/class/misc", "rdma_cm", "rdma_cm")}
	}
	for _, list := range chars {
		slices.SortFunc(list, func(a, b CharDevice) int {
			return cmp.Or(-cmp.Compare(a.Kind, b.Kind), compareNumbered(a.Name, b.Name))
		})
	}
	return chars
}

// readCharDevice reads one character device.
func (r *deviceReader) readCharDevice(class, name, kind string) CharDevice {
	dir := path.Join(class, name)
	c := CharDevice{Kind: kind, Name: name, Port: int(r.readUint(dir+"/port", 8))}
	if text, ok := r.readText(dir + "/dev"); ok {
		var err error
		c.Major, c.Minor, err = parseDev(text)
		r.addProblem(dir+"/dev", err)
	}
	if class == "sys/class/infiniband_mad" {
		dir = class // all devices have one version
	}
	c.ABI = int(r.readUint(dir+"/abi_version", 31))
	return c
}

// ueventValue returns the value of the line KEY=value, or "".
func ueventValue(text, key string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, key+"="); ok && strings.HasSuffix(v, "\n") {
			return strings.TrimSuffix(v, "\n")
		}
	}
	return ""
}
