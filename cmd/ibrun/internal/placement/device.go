package placement

import (
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
			device: &hw.Choice{Candidate: c, Path: n.top.PathFrom(b, c.Spot)}}
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
func (n *node) nearest(ranks []Rank, mapped []*hw.Choice) (notes []string) {
	pus := make([][]int, len(ranks))
	for i, r := range ranks {
		pus[i] = r.PUs
	}
	var nics, gpus []hw.Choice
	toNIC := len(mapped) > 0 && mapped[0].Port > 0 // only RDMA devices have ports
	if !toNIC {
		nics = n.top.Spread(pus, n.top.RDMACandidates())
	}
	if toNIC || mapped == nil {
		gpus = n.top.Spread(pus, n.top.GPUCandidates())
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
		for _, c := range []hw.Choice{r.NIC, r.GPU} {
			if r.Bound && c.Path == hw.PathSys {
				notes = append(notes, fmt.Sprintf("rank %d on PUs %s is in another package than %v, the nearest device: "+
					"its traffic crosses sockets", r.Rank, hw.FormatList(r.PUs), c))
			}
		}
	}
	return notes
}
