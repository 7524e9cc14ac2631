package hw

import (
	"cmp"
	"io/fs"
	"slices"
)

// Topology describes a node at one moment. ibrun topo --json prints its JSON form; the JSON field names do not change.
//
// The lists of packages, dies, NUMA nodes, caches, cores and PUs follow the order of the tree that they form: larger
// sets first, then by lowest PU. Entries that are close in a list are close in the machine. This is hwloc's logical
// order. Sets of PUs are ascending and contain only PUs that are online. Sets may share memory, so the caller must not
// change them.
type Topology struct {
	Packages []Package `json:"packages"`
	Dies     []Die     `json:"dies"` // of packages with more than one
	Nodes    []Node    `json:"nodes"`
	Caches   []Cache   `json:"caches"` // by falling level, data before instructions
	Cores    []Core    `json:"cores"`
	Kinds    []Kind    `json:"kinds"` // fastest first; one where all cores are alike
	PUs      []PU      `json:"pus"`
	// Memory is that of the machine in bytes, 0 when unknown. On some virtual machines the nodes report less in all.
	Memory uint64 `json:"memory"`

	// Allowed lists the PUs that the process may use: online, in its cgroup, and in its affinity mask.
	Allowed []int `json:"allowed"`
	// Affinity is the mask passed to WithAffinity, or nil.
	Affinity []int `json:"affinity,omitempty"`
	// Cgroup is the process's cpuset, or nil without one.
	Cgroup *Cgroup `json:"cgroup,omitempty"`

	PCI     []PCIDevice  `json:"pci"` // those near the first PUs first, then by bridge and address
	RDMA    []RDMADevice `json:"rdma"`
	Netdevs []Netdev     `json:"netdevs"`
	GPUs    []Device     `json:"gpus"` // displays and accelerators, by PCI class
	NVMe    []Device     `json:"nvme"` // by PCI class

	// Problems lists files that could not be read or understood. Their fields have the values for unknown.
	// Each device has its own Problems.
	Problems []string `json:"problems,omitempty"`
}

// Package is a physical package: the part that is plugged into a socket.
type Package struct {
	ID    int    `json:"id"` // the kernel's number, -1 where the firmware does not say
	Model string `json:"model,omitempty"`
	PUs   []int  `json:"pus"`
}

// Die is a part of a package with caches and memory controllers of its own.
type Die struct {
	ID  int   `json:"id"` // unique in its package
	PUs []int `json:"pus"`
}

// Node is a NUMA node: memory, and the PUs that are close to it, if any. A machine that describes no NUMA nodes is one
// node with number 0.
type Node struct {
	ID     int    `json:"id"`
	Memory uint64 `json:"memory"` // bytes
	PUs    []int  `json:"pus"`

	// Near is PUs. For a node without PUs it is the PUs of the nodes at the smallest distance, or all PUs if the distances
	// are unknown.
	Near []int `json:"near"`
	// Distances[i] is the distance to Topology.Nodes[i] according to the firmware. The distance of a node to itself is 10.
	// Distances is nil when unknown.
	Distances []int `json:"distances"`
	// GPU is the PCI address of the GPU that this memory belongs to, if any.
	GPU string `json:"gpu,omitempty"`
}

// Cache is one cache.
type Cache struct {
	Level int    `json:"level"` // from 1
	Type  string `json:"type"`  // Data, Instruction or Unified
	Size  uint64 `json:"size"`  // bytes, as are lines; 0 when unknown, as are Line and Ways
	Line  int    `json:"line"`
	Ways  int    `json:"ways"`
	PUs   []int  `json:"pus"`
}

// Core is one core.
type Core struct {
	ID   int   `json:"id"`   // the kernel's number, unique in its package; -1 when unknown
	Kind int   `json:"kind"` // index into Topology.Kinds
	PUs  []int `json:"pus"`  // its hardware threads
}

// Kind is a kind of core of a hybrid machine.
type Kind struct {
	Name     string `json:"name"`     // the kernel's: cpu_core, cpu_atom; or capacity
	Capacity int    `json:"capacity"` // relative to 1024 for the fastest, 0 when unknown
	PUs      []int  `json:"pus"`
}

// PU is one processing unit and its location in the topology. Core and L3 are identified by the lowest PU in them, so
// these numbers are unique on the node. Node and Package are the kernel's own numbers. If a core has no level-3 cache,
// L3 equals Core.
type PU struct {
	ID      int `json:"id"`
	Core    int `json:"core"`
	L3      int `json:"l3"`
	Node    int `json:"node"`    // -1 when unknown; 0 on a machine without nodes
	Package int `json:"package"` // 0 when the firmware does not say
}

// Cgroup is the cpuset of this process.
type Cgroup struct {
	Path  string `json:"path"` // in the hierarchy of cpusets: /docker/0123
	PUs   []int  `json:"pus"`  // nil for no limit, as are Nodes
	Nodes []int  `json:"nodes"`
}

// Option changes how much [Read] reads.
type Option func(*readOptions)

type readOptions struct {
	onlyPUs   bool
	affinity  []int
	openError func(*RDMADevice) error
}

// OnlyPUs makes Read fill only Topology.PUs, and the Problems found while doing so. It reads a fraction of the files.
// Use it in programs that must start fast.
func OnlyPUs(o *readOptions) { o.onlyPUs = true }

// WithAffinity sets the PUs that the process may run on, as returned by [Affinity].
func WithAffinity(pus []int) Option {
	return func(o *readOptions) { o.affinity = slices.Sorted(slices.Values(pus)) }
}

// WithOpen makes Read call canOpen for each RDMA device and store the result in RDMADevice.AccessError. See
// [RDMADevice.CanOpen].
func WithOpen(canOpen func(*RDMADevice) error) Option {
	return func(o *readOptions) { o.openError = canOpen }
}

// Read reads the node whose root directory is fsys, for example os.DirFS("/") or the result of [OpenTree]. It uses the
// trees below sys and proc, reads each file once, and reads at most 64 KiB of most files.
//
// A machine need not describe everything. Without a file for its core or package, a PU gets a core or package of its
// own. Without NUMA nodes, everything is on node 0.
//
// Read fails only if the location of PUs is unknown, because process placement depends on it. If the list of online PUs
// is missing, the error is fs.ErrNotExist. If a file with the location of a PU cannot be understood, the error is
// [ErrMalformed]. Everything else that cannot be read is listed in Problems, and devices are returned with the fields
// that could be read. Problems also lists each PU that claims to share a core, package or cache with PUs that claim
// another one. In that case the first claim counts, so no PU is in two of them.
func Read(fsys fs.FS, options ...Option) (*Topology, error) {
	var o readOptions
	for _, option := range options {
		option(&o)
	}
	r := &cpuReader{reader: reader{fsys: fsys}, onlyPUs: o.onlyPUs, puByID: map[int]*PU{}, top: &Topology{Affinity: o.affinity}}
	r.readPUs()
	if r.err != nil {
		return nil, r.err
	}
	if o.onlyPUs {
		r.top.Problems = r.problems
		return r.top, nil
	}
	r.readDetails()
	d := &deviceReader{reader: reader{fsys: fsys, parsedSets: r.parsedSets, setMembers: r.setMembers}, top: r.top}
	d.readDevices(o.openError)
	r.top.Problems = append(r.problems, d.problems...)
	r.top.fillEmptyLists()
	return r.top, nil
}

// fillEmptyLists makes empty lists non-nil. They are [] in JSON; null would mean unknown.
func (t *Topology) fillEmptyLists() {
	t.Packages, t.Dies, t.Caches = orEmpty(t.Packages), orEmpty(t.Dies), orEmpty(t.Caches)
	t.PCI, t.RDMA, t.Netdevs = orEmpty(t.PCI), orEmpty(t.RDMA), orEmpty(t.Netdevs)
	t.GPUs, t.NVMe = orEmpty(t.GPUs), orEmpty(t.NVMe)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// CoresOf returns the cores of the allowed PUs. Each core is the ascending list of its allowed PUs. Cores that share a
// cache are adjacent in the result, and so are the cores of a NUMA node and of a package. Every contiguous part of the
// result is therefore as close together as the node allows. PUs that the topology does not contain are single cores at
// the end. A zero Topology thus returns the allowed PUs one by one.
func (t *Topology) CoresOf(allowed []int) [][]int {
	known := t.pusByID()
	var pus []PU
	for _, id := range allowed {
		pu, ok := known[id]
		if !ok {
			pu = PU{ID: id, Core: id, L3: maxID, Node: maxID, Package: maxID}
		}
		pus = append(pus, pu)
	}
	slices.SortFunc(pus, func(a, b PU) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Node, b.Node), cmp.Compare(a.L3, b.L3),
			cmp.Compare(a.Core, b.Core), cmp.Compare(a.ID, b.ID))
	})
	var cores [][]int
	for i, pu := range pus {
		if i == 0 || pu.Core != pus[i-1].Core {
			cores = append(cores, nil)
		}
		last := len(cores) - 1
		cores[last] = append(cores[last], pu.ID)
	}
	return cores
}

// pusByID returns the PUs by number.
func (t *Topology) pusByID() map[int]PU {
	places := make(map[int]PU, len(t.PUs))
	for _, pu := range t.PUs {
		places[pu.ID] = pu
	}
	return places
}
