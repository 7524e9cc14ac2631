package mpi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// Where keys of hardware come from.
const (
	hwlocPrefix = "hwloc://"
	ibrunPrefix = "ibrun://"
)

// GetHWResourceInfo tells which hardware this process is restricted to at this moment: each key is a type of hardware
// resource, and its value is true if all threads of the process may run only within one instance of it, and otherwise
// false. Each call reads machine and affinity anew and makes another Info. It is local. Not all systems tell:
// errors.ErrUnsupported.
//
// Keys of hwloc:// are types as hwloc spells them, as far as the machine has them: Machine, Package, NUMANode, L3Cache,
// L2Cache, L1Cache, Core, PU. Those of ibrun:// are single instances, on the node called NAME:
//
//	ibrun://NAME/core/7        also machine/0, package, numa, l3, l2, l1 and pu: those that the process may run in
//	ibrun://NAME/rdma/DEV/PORT a port that can carry traffic, ibrun://rail/K the rail that it is, see package hw
//	ibrun://NAME/gpu/K         GPU number K by PCI address
//	ibrun://NAME/pci/0000:3a   a PCI root complex
//
// A device's is true if no other of its sort is nearer to any PU that the process may run on. Of numa and pu the number is
// the kernel's, of the others hwloc's logical index. Characters of NAME that have a meaning in URIs are escaped.
//
// Every key can be the value of mpi_hw_resource_type in [Comm.SplitType]. MPI-5.0 §9.1.3.
func (p *Process) GetHWResourceInfo() (*Info, error) {
	const op = "GetHWResourceInfo"
	held, err := p.hwResources()
	if err != nil {
		return nil, p.wrapError(op, err)
	}
	i := &Info{}
	for _, h := range held {
		if err := i.Set(h.key, fmt.Sprint(h.restricted)); err != nil {
			return nil, p.wrapError(op, err)
		}
	}
	return i, nil
}

// hwResource is what a process has of a type of hardware resource.
type hwResource struct {
	key        string
	restricted bool // it is restricted to one instance
	// instance tells which, where the key does not.
	instance int
	// acrossNodes nodes it is the same resource: a rail.
	acrossNodes bool
}

// hwResources lists what this process has, types of hwloc first and large ones before small ones.
func (p *Process) hwResources() ([]hwResource, error) {
	top, allowed, err := p.boot.Hardware()
	if err != nil {
		return nil, err
	}
	types, ours := machineResources(top, allowed, p.nodeURI())
	return slices.Concat(types, ours, deviceResources(top, allowed, p.nodeURI())), nil
}

// nodeURI is what the keys of single instances on this node begin with.
func (p *Process) nodeURI() string { return ibrunPrefix + url.PathEscape(p.boot.NodeName) + "/" }

// machineResources lists what PUs have of the parts of the machine.
func machineResources(top *hw.Topology, allowed []int, node string) (types, ours []hwResource) {
	all := top.Resources()
	for _, kind := range hw.ResourceTypes() {
		h, found := hwResource{key: hwlocPrefix + kind}, false
		word := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(kind, "Cache"), "Node"))
		for _, r := range all {
			if r.Type != kind {
				continue
			}
			found = true
			only := r.Has(allowed)
			if only {
				h.restricted, h.instance = true, r.Number
			}
			if r.Meets(allowed) {
				ours = append(ours, hwResource{key: fmt.Sprint(node, word, "/", r.Number), restricted: only})
			}
		}
		if found {
			types = append(types, h)
		}
	}
	return types, ours
}

// deviceResources lists which devices are near some PUs.
func deviceResources(top *hw.Topology, allowed []int, node string) []hwResource {
	var all []hwResource
	among := func(list []hw.Candidate, c hw.Candidate) bool {
		return slices.ContainsFunc(list, func(other hw.Candidate) bool { return other.String() == c.String() })
	}
	ports := top.RDMACandidates()
	near := top.Around(allowed, ports)
	for k, c := range top.Rails() {
		if among(ports, c) {
			port := fmt.Sprintf("%srdma/%s/%d", node, url.PathEscape(c.Name), c.Port)
			rail := fmt.Sprint(ibrunPrefix, "rail/", k)
			isNear := among(near, c)
			all = append(all, hwResource{key: port, restricted: isNear},
				hwResource{key: rail, restricted: isNear, acrossNodes: true})
		}
	}
	gpus := top.GPUCandidates()
	near = top.Around(allowed, gpus)
	for k, c := range gpus {
		all = append(all, hwResource{key: fmt.Sprint(node, "gpu/", k), restricted: among(near, c)})
	}
	roots := top.RootCandidates()
	near = top.Around(allowed, roots)
	for _, c := range roots {
		all = append(all, hwResource{key: node + "pci/" + c.Name, restricted: among(near, c)})
	}
	return all
}
