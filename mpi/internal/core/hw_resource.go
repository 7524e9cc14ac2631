package core

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// Prefixes of the keys of hardware resources.
const (
	hwlocPrefix = "hwloc://"
	ibrunPrefix = "ibrun://"
)

// Machine returns what is known of the machine of this process; nil if there is no process.
func (p *Process) Machine() *Machine {
	if p.IsNone() {
		return nil
	}
	return &p.machine
}

// HWResources returns the hardware to which this process is restricted now; nil for nil.
func (m *Machine) HWResources() (*Info, error) {
	if m == nil {
		return nil, nil
	}
	held, err := m.resources()
	if err != nil {
		return nil, err
	}
	i := &Info{}
	for _, h := range held {
		if err := i.Set(h.key, fmt.Sprint(h.restricted)); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// hwResource describes how a process uses a type of hardware resource.
type hwResource struct {
	key        string
	restricted bool // the process is restricted to one instance
	// instance is the number of that instance, if the key does not contain it.
	instance int
	// acrossNodes is set for a resource that spans nodes: a rail.
	acrossNodes bool
}

// resources lists the resources of this process: types of hwloc first, and large ones before small
// ones.
func (m *Machine) resources() ([]hwResource, error) {
	top, allowed, err := m.boot.Hardware()
	if err != nil {
		return nil, err
	}
	types, ours := machineResources(top, allowed, m.nodeURI())
	return slices.Concat(types, ours, deviceResources(top, allowed, m.nodeURI())), nil
}

// nodeURI returns the prefix of the keys of single instances on this node.
func (m *Machine) nodeURI() string { return ibrunPrefix + url.PathEscape(m.boot.NodeName) + "/" }

// machineResources lists the parts of the machine that contain the allowed PUs: types of hwloc, and
// single instances.
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
			only := r.Contains(allowed)
			if only {
				h.restricted, h.instance = true, r.Number
			}
			if r.Overlaps(allowed) {
				ours = append(ours, hwResource{key: fmt.Sprint(node, word, "/", r.Number), restricted: only})
			}
		}
		if found {
			types = append(types, h)
		}
	}
	return types, ours
}

// modelOf returns the model of a GPU, "" if it is unknown.
func modelOf(top *hw.Topology, gpu hw.Candidate) string {
	for _, d := range top.GPUs {
		if d.PCI == gpu.PCI {
			return d.Model
		}
	}
	return ""
}

// deviceResources lists the devices of a node, and whether they are near the allowed PUs.
func deviceResources(top *hw.Topology, allowed []int, node string) []hwResource {
	var all []hwResource
	contains := func(list []hw.Candidate, c hw.Candidate) bool {
		return slices.ContainsFunc(list, func(other hw.Candidate) bool { return other.String() == c.String() })
	}
	ports := top.RDMACandidates()
	near := top.NearestToAll(allowed, ports)
	for k, c := range top.Rails() {
		if contains(ports, c) {
			port := fmt.Sprintf("%srdma/%s/%d", node, url.PathEscape(c.Name), c.Port)
			rail := fmt.Sprint(ibrunPrefix, "rail/", k)
			isNear := contains(near, c)
			all = append(all, hwResource{key: port, restricted: isNear},
				hwResource{key: rail, restricted: isNear, acrossNodes: true})
		}
	}
	gpus := top.GPUCandidates()
	near = top.NearestToAll(allowed, gpus)
	for k, c := range gpus {
		r := hwResource{key: fmt.Sprint(node, "gpu/", k), restricted: contains(near, c)}
		all = append(all, r)
		if model := modelOf(top, c); model != "" {
			r.key += "/" + url.PathEscape(model)
			all = append(all, r)
		}
	}
	roots := top.PCIRootCandidates()
	near = top.NearestToAll(allowed, roots)
	for _, c := range roots {
		all = append(all, hwResource{key: node + "pci/" + c.Name, restricted: contains(near, c)})
	}
	return all
}
