package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// candidates are the devices that a name means: nic, gpu, mlx5_0, mlx5_0:1, card0 or a PCI address.
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

// deviceObjects are devices with the allowed cores near each. Devices with the same cores share a place.
func (n *node) deviceObjects(which string) ([]object, error) {
	var objects []object
	var sets [][]int // of their PUs
	var without []string
	for _, c := range n.candidates(which) {
		cores := n.coresOf(c.LocalPUs)
		if len(cores) == 0 {
			without = append(without, c.String())
			continue
		}
		b := sorted(cores)
		o := object{name: "the cores near " + c.String(), place: len(objects), cores: cores,
			device: &hw.Choice{Candidate: c, Path: n.top.PathFrom(b, c.Location)}}
		sets = append(sets, b)
		for i, other := range objects {
			a := sets[i]
			if slices.Equal(a, b) {
				o.place = other.place
				break
			}
			if slices.ContainsFunc(a, func(pu int) bool { _, found := slices.BinarySearch(b, pu); return found }) {
				return nil, fmt.Errorf("%w: some but not all cores near %v are near %v, or this machine does not tell where "+
					"one of them is: "+
					"name one as device=NAME", ErrNoObject, other.device, c)
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
		return nil, fmt.Errorf("%w: this machine has no GPU that computes", ErrNoObject)
	}
	return nil, fmt.Errorf("%w: this machine has no device %s that can be used", ErrNoObject, which)
}

// coresOf are the allowed cores with a PU among these, all for nil.
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

// nearest gives each rank the NIC and the GPU near it, those that it was mapped to if there are any.
func (n *node) nearest(ranks []Rank, mapped []*hw.Choice) {
	pus := make([][]int, len(ranks))
	for i, r := range ranks {
		pus[i] = r.PUs
	}
	var nics, gpus []hw.Choice
	toNIC := len(mapped) > 0 && mapped[0].Port > 0 // only RDMA devices have ports
	if !toNIC {
		nics = n.top.AssignDevices(pus, n.top.RDMACandidates())
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

// Crossing warns of ranks on one machine whose devices are in another package, if they use these devices.
func (p *Policy) Crossing(ranks []Rank) []string {
	notes := crossing(ranks, func(r Rank) hw.Choice { return r.NIC })
	if p.Map == Device { // otherwise it is not known that ranks use GPUs
		notes = append(notes, crossing(ranks, func(r Rank) hw.Choice { return r.GPU })...)
	}
	return notes
}

// crossing warns of ranks whose device is in another package, in one line for each device.
func crossing(ranks []Rank, device func(Rank) hw.Choice) (notes []string) {
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
		who := "rank %s on PUs %s is in another package than %s, the nearest device: its traffic crosses sockets"
		if len(numbers) > 1 {
			who = "ranks %s on PUs %s are in another package than %s, the nearest device: their traffic crosses sockets"
		}
		notes = append(notes, fmt.Sprintf(who, hw.FormatList(numbers), hw.FormatList(pus), name))
	}
	return notes
}

// Variables are what tells other libraries which devices a rank was mapped to: UCX and NCCL the NIC, and CUDA, ROCm and
// Level Zero the GPU, counted by PCI address among those of its maker.
func (m Machine) Variables(r Rank) []string {
	var all []string
	if r.NIC.Name != "" {
		all = append(all, "UCX_NET_DEVICES="+r.NIC.String(), "NCCL_IB_HCA=="+r.NIC.String()) // the second = is for: exactly
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

// addressBefore orders PCI addresses, which are written with equally many digits but for domains of more than 16 bits.
func addressBefore(a, b string) bool {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) < 0
}
