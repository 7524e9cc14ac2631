package hw

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Device is a device that is identified by its PCI class: a GPU or an NVMe disk.
type Device struct {
	Name     string `json:"name"` // card0 or nvme0; the PCI address where there is no driver
	PCI      string `json:"pci"`
	ID       string `json:"id"` // vendor and device, hexadecimal: 10de:2330
	Driver   string `json:"driver,omitempty"`
	Model    string `json:"model,omitempty"` // NVIDIA H100 80GB HBM3; what the driver says, or LookUpModels
	NUMA     int    `json:"numa"`            // the NUMA node it is attached to, -1 when that is unknown
	LocalPUs []int  `json:"local_pus"`       // the PUs near it; nil when unknown

	Problems []string `json:"problems,omitempty"`
}

// newDevice returns the Device of a PCI function. Its name is the kernel's: the entry of dir that is prefix plus a
// number.
func (r *deviceReader) newDevice(p PCIDevice, dir, prefix string) Device {
	d := Device{Name: p.Address, PCI: p.Address, ID: p.ID, Driver: p.Driver, NUMA: p.NUMA, LocalPUs: p.LocalPUs}
	problems := r.collectProblems(func() {
		for _, name := range r.readDirNames(dirPCI + p.Address + "/" + dir) {
			if digits, ok := strings.CutPrefix(name, prefix); ok && strings.Trim(digits, "0123456789") == "" {
				d.Name = name
			}
		}
		d.Model = parseFile(&r.reader, gpusNVIDIA+"/"+p.Address+"/information", parseModel)
	})
	d.Problems = slices.Concat(p.Problems, problems)
	return d
}

// deviceReader reads devices. The problems of a device are stored with the device.
type deviceReader struct {
	reader
	top *Topology // nil if only RDMA devices are read
}

// collectProblems calls read and returns the problems that read added, without adding them to the common list.
func (r *deviceReader) collectProblems(read func()) []string {
	shared := r.problems
	r.problems = nil
	read()
	mine := r.problems
	r.problems = shared
	return mine
}

// readDevices reads all devices.
func (r *deviceReader) readDevices(canOpen func(*RDMADevice) error) {
	for _, address := range r.readDirNames(dirPCI[:len(dirPCI)-1]) {
		var d PCIDevice
		if isPCIAddress(address) {
			problems := r.collectProblems(func() { d = r.readPCIDevice(address) })
			d.Problems = problems
			r.top.PCI = append(r.top.PCI, d)
		}
	}
	r.sortPCI()
	for _, d := range r.top.PCI {
		switch {
		case strings.HasPrefix(d.Class, "03"), strings.HasPrefix(d.Class, "12"):
			r.top.GPUs = append(r.top.GPUs, r.newDevice(d, "drm", "card"))
		case d.Class == "0108":
			r.top.NVMe = append(r.top.NVMe, r.newDevice(d, "nvme", "nvme"))
		}
	}
	r.readNetdevs()
	var err error
	r.top.RDMA, err = r.readRDMA()
	r.addProblem(classRDMA, err)
	for i := range r.top.RDMA {
		if canOpen != nil {
			r.top.RDMA[i].AccessError = asAccessError(&r.top.RDMA[i], canOpen(&r.top.RDMA[i]))
		}
	}
}

// linkTarget returns the base name of the target of a symbolic link, or "".
func (r *deviceReader) linkTarget(name string) string {
	to, err := fs.ReadLink(r.fsys, name)
	if err != nil {
		return "" // no such link, or a copied tree without links
	}
	return path.Base(to)
}

// readLocality returns the NUMA node and the local PUs of a device. It tries the given directories first, then the PCI
// ancestors of the last one.
func (r *deviceReader) readLocality(dirs ...string) (numa int, pus []int) {
	for _, name := range r.pciAncestors(dirs[len(dirs)-1]) {
		if isPCIAddress(name) && dirPCI+name != dirs[len(dirs)-1] {
			dirs = append(dirs, dirPCI+name)
		}
	}
	for _, dir := range dirs {
		node := -1
		if text, ok := r.readText(dir + "/numa_node"); ok && text != "-1\n" {
			n, err := parseUint(text, 16)
			if err == nil && r.top != nil && !slices.ContainsFunc(r.top.Nodes, func(have Node) bool { return have.ID == int(n) }) {
				err = malformed("number of a NUMA node that does not exist:", text)
			}
			r.addProblem(dir+"/numa_node", err)
			if err == nil {
				node = int(n)
			}
		}
		local, found := r.readSet(dir+"/", "local_cpus", "local_cpulist")
		if node >= 0 {
			return node, local
		}
		if found && pus == nil {
			pus = local
		}
	}
	return -1, pus
}

// compareNumbered sorts mlx5_2 before mlx5_10.
func compareNumbered(a, b string) int {
	const digits = "0123456789"
	stemA, stemB := strings.TrimRight(a, digits), strings.TrimRight(b, digits)
	return cmp.Or(cmp.Compare(stemA, stemB), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
