package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// candidates returns the devices that a name selects: nic, gpu, mlx5_0, mlx5_0:1, card0 or a PCI address.
func (n *node) candidates(which string) []hw.Candidate {
	switch which {
	case "", "nic":
		return n.top.RDMACandidates()
	case "gpu":
		return n.top.GPUCandidates()
	}
	return slices.DeleteFunc(slices.Concat(n.top.RDMACandidates(), n.top.GPUCandidates()), func(c hw.Candidate) bool {
		return which != c.Name && which != c.String() && which != c.PCI
	})
}

// deviceObjects returns the devices, each with the allowed cores near it. Devices with the same cores have the same coreSet.
func (n *node) deviceObjects(which string) ([]object, error) {
	var objects []object
	var sets [][]int // the PUs of each object
	var without []string
	for _, c := range n.candidates(which) {
		cores := n.coresOf(c.LocalPUs)
		if len(cores) == 0 {
			without = append(without, c.String())
			continue
		}
		b := sortedPUs(cores)
		o := object{name: "the cores near " + c.String(), coreSet: len(objects), cores: cores,
			device: &hw.Choice{Candidate: c, Path: n.top.PathFrom(b, c.Location)}}
		sets = append(sets, b)
		for i, other := range objects {
			a := sets[i]
			if slices.Equal(a, b) {
				o.coreSet = other.coreSet
				break
			}
			if slices.ContainsFunc(a, func(pu int) bool { _, found := slices.BinarySearch(b, pu); return found }) {
				return nil, fmt.Errorf("%w: some but not all cores near %v are near %v, or the location of one of them is "+
					"unknown: choose one with device=NAME", ErrNoObject, other.device, c)
			}
		}
		objects = append(objects, o)
	}
	switch {
	case len(objects) > 0:
		return objects, nil
	case len(without) > 0:
		return nil, fmt.Errorf("%w: none of the allowed PUs %s is near %s", ErrNoObject, hw.FormatList(n.allowed),
			strings.Join(without, ", "))
	case which == "" || which == "nic":
		return nil, fmt.Errorf("%w: this machine has no RDMA device with an active port that can be opened", ErrNoObject)
	case which == "gpu":
		return nil, fmt.Errorf("%w: this machine has no compute GPU", ErrNoObject)
	}
	return nil, fmt.Errorf("%w: this machine has no device %s that can be used", ErrNoObject, which)
}

// coresOf returns the allowed cores that have one of these PUs, or all allowed cores for nil.
func (n *node) coresOf(pus []int) [][]int {
	if pus == nil {
		return n.cores
	}
	near := map[int]bool{}
	for _, pu := range pus {
		near[pu] = true
	}
	return slices.DeleteFunc(slices.Clone(n.cores), func(core []int) bool {
		return !slices.ContainsFunc(core, func(pu int) bool { return near[pu] })
	})
}

// assignDevices sets the NIC and the GPU of each rank: the device that it is mapped to, otherwise the nearest one.
func (n *node) assignDevices(ranks []Rank, mapped []*hw.Choice) {
	pus := make([][]int, len(ranks))
	for i, r := range ranks {
		pus[i] = r.PUs
	}
	var nics, gpus []hw.Choice
	toNIC := len(mapped) > 0 && mapped[0].Port > 0 // only RDMA devices have ports
	if !toNIC {
		nics = n.top.AssignDevices(pus, n.top.FabricCandidates())
	}
	if toNIC || mapped == nil {
		gpus = n.top.AssignDevices(pus, n.top.GPUCandidates())
	}
	for i := range ranks {
		r := &ranks[i]
		switch {
		case toNIC:
			r.NIC = *mapped[i]
		case mapped != nil:
			r.GPU = *mapped[i]
		}
		if nics != nil {
			r.NIC = nics[i]
		}
		if gpus != nil {
			r.GPU = gpus[i]
		}
	}
}

// CrossSocketWarnings warns about ranks of one machine whose devices are in another package.
func (p *Policy) CrossSocketWarnings(ranks []Rank) []string {
	notes := crossSocketWarnings(ranks, func(r Rank) hw.Choice { return r.NIC })
	if p.Map == Device { // otherwise the ranks may not use GPUs at all
		notes = append(notes, crossSocketWarnings(ranks, func(r Rank) hw.Choice { return r.GPU })...)
	}
	return notes
}

// crossSocketWarnings warns about ranks whose device is in another package, one line per device.
func crossSocketWarnings(ranks []Rank, device func(Rank) hw.Choice) (notes []string) {
	var order []string
	far := map[string][]Rank{}
	for _, r := range ranks {
		if c := device(r); r.Bound && c.Path == hw.PathSys {
			name := c.String()
			if far[name] == nil {
				order = append(order, name)
			}
			far[name] = append(far[name], r)
		}
	}
	for _, name := range order {
		var numbers, pus []int
		for _, r := range far[name] {
			numbers, pus = append(numbers, r.Rank), append(pus, r.PUs...)
		}
		format := "rank %s on PUs %s is in another package than %s, the nearest device: its traffic crosses sockets"
		if len(numbers) > 1 {
			format = "ranks %s on PUs %s are in another package than %s, the nearest device: their traffic crosses sockets"
		}
		notes = append(notes, fmt.Sprintf(format, hw.FormatList(numbers), hw.FormatList(pus), name))
	}
	return notes
}

// Variables returns the environment variables by which other libraries select the devices that a rank is mapped to: the NIC
// for UCX and NCCL, the GPU for CUDA, ROCm and Level Zero. GPUs are numbered by PCI address among those of their vendor.
func (m Machine) Variables(r Rank) []string {
	var all []string
	if r.NIC.Name != "" {
		all = append(all, "UCX_NET_DEVICES="+r.NIC.String(), "NCCL_IB_HCA=="+r.NIC.String()) // the second = requests an exact match
	}
	if r.GPU.Name == "" {
		return all
	}
	var vendor string
	for _, d := range m.Top.GPUs {
		if d.PCI == r.GPU.PCI {
			vendor, _, _ = strings.Cut(d.ID, ":")
		}
	}
	number := 0
	for _, d := range m.Top.GPUs {
		if strings.HasPrefix(d.ID, vendor+":") && addressBefore(d.PCI, r.GPU.PCI) {
			number++
		}
	}
	switch vendor {
	case "10de":
		all = append(all, fmt.Sprintf("CUDA_VISIBLE_DEVICES=%d", number), "CUDA_DEVICE_ORDER=PCI_BUS_ID")
	case "1002":
		all = append(all, fmt.Sprintf("ROCR_VISIBLE_DEVICES=%d", number))
	case "8086":
		all = append(all, fmt.Sprintf("ZE_AFFINITY_MASK=%d", number), "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1")
	}
	return all
}

// addressBefore reports whether PCI address a sorts before b. Only domains of more than 16 bits have more digits.
func addressBefore(a, b string) bool {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) < 0
}
