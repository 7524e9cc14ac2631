package hw

import (
	"cmp"
	"io/fs"
	"slices"
)

// Topology is a node at one moment. Its JSON is what ibrun topo --json prints, and its field names stay.
//
// The lists of packages, dies, NUMA nodes, caches, cores and PUs are in the order of the tree that they form, largest
// first and by the lowest PU: what is close in a list is close in the machine. It is the logical order of hwloc. Sets of
// PUs are ascending, name only PUs that are switched on, and may share memory: they are not to be changed.
type Topology struct {
	Packages []Package `json:"packages"`
	Dies     []Die     `json:"dies"` // of packages with more than one
	Nodes    []Node    `json:"nodes"`
	Caches   []Cache   `json:"caches"` // by falling level, data before instructions
	Cores    []Core    `json:"cores"`
	Kinds    []Kind    `json:"kinds"` // fastest first; one where all cores are alike
	PUs      []PU      `json:"pus"`

	// Allowed is what the process may use: the PUs that are switched on, in its cgroup and in its affinity mask.
	Allowed []int `json:"allowed"`
	// Affinity is the mask that WithAffinity gave, nil without.
	Affinity []int `json:"affinity,omitempty"`
	// Cgroup is the process's cpuset, nil where there is none.
	Cgroup *Cgroup `json:"cgroup,omitempty"`

	PCI     []PCIDevice  `json:"pci"` // those near the first PUs first, then by bridge and address
	RDMA    []RDMADevice `json:"rdma"`
	Netdevs []Netdev     `json:"netdevs"`
	GPUs    []Device     `json:"gpus"` // displays and accelerators, by PCI class
	NVMe    []Device     `json:"nvme"` // by PCI class

	// Problems names what could not be read or understood. The fields in question are as if the kernel did not say.
	// Devices have Problems of their own.
	Problems []string `json:"problems,omitempty"`
}

// Package is a physical package: what sits in a socket.
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

// Node is a NUMA node: memory, and the PUs that are close to it, if any. A machine that has none described is one node,
// 0.
type Node struct {
	ID     int    `json:"id"`
	Memory uint64 `json:"memory"` // bytes
	PUs    []int  `json:"pus"`

	// Near is PUs, or for a node without any those of the nodes at the smallest distance, all where that is unknown.
	Near []int `json:"near"`
	// Distances are the firmware's, relative to 10 for the node itself: Distances[i] is that to Topology.Nodes[i]. It is
	// nil when unknown.
	Distances []int `json:"distances"`
	// GPU is the PCI address of the GPU whose memory this is.
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

// Kind is a sort of core of a hybrid machine.
type Kind struct {
	Name     string `json:"name"`     // the kernel's: cpu_core, cpu_atom; or capacity
	Capacity int    `json:"capacity"` // relative to 1024 for the fastest, 0 when unknown
	PUs      []int  `json:"pus"`
}

// PU is one processing unit and its place. Core and L3 are named by the lowest PU in them, which makes the names
// unique on the node; Node and Package are the kernel's own numbers. A core without a level-3 cache is named as one.
type PU struct {
	ID      int `json:"id"`
	Core    int `json:"core"`
	L3      int `json:"l3"`
	Node    int `json:"node"`    // -1 when unknown; 0 on a machine without nodes
	Package int `json:"package"` // 0 when the firmware does not say
}

// Cgroup is the cpuset that the process is in.
type Cgroup struct {
	Path  string `json:"path"` // in the hierarchy of cpusets: /docker/0123
	PUs   []int  `json:"pus"`  // nil for no limit, as are Nodes
	Nodes []int  `json:"nodes"`
}

// Option narrows or widens what [Read] does.
type Option func(*readOptions)

type readOptions struct {
	onlyPUs   bool
	affinity  []int
	openError func(*RDMADevice) error
}

// OnlyPUs has Read read Topology.PUs, with the Problems of that, and nothing else. It is for programs that start: a fraction
// of the files.
func OnlyPUs(o *readOptions) { o.onlyPUs = true }

// WithAffinity says which PUs the process may run on, as [Affinity] tells.
func WithAffinity(pus []int) Option {
	return func(o *readOptions) { o.affinity = slices.Sorted(slices.Values(pus)) }
}

// WithOpen asks for each RDMA device whether it can be opened, as [RDMADevice.CanOpen] tells, and keeps the answer in
// RDMADevice.AccessError.
func WithOpen(canOpen func(*RDMADevice) error) Option {
	return func(o *readOptions) { o.openError = canOpen }
}

// Read reads the node whose root directory fsys is, as os.DirFS("/") or [OpenTree] give it: the trees below sys and
// proc. It reads each file once, and of no file more than 64 KiB.
//
// A machine need not describe everything: without the file of a core or a package, a PU has one of its own, and without
// nodes all is node 0. What placement stands on is strict: without the list of PUs that are switched on, the error is
// fs.ErrNotExist; where a file with the place of a PU cannot be understood, it is [ErrMalformed]. All else that cannot be
// read is named in Problems, and devices are listed with what can. So is a PU that claims to share a core, a package or a
// cache with others that claim another: the first is believed, and no PU is in two.
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

// fillEmptyLists makes lists of what there is none of empty: [] in JSON, and not null, which would be unknown.
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

// CoresOf returns the cores that the allowed PUs belong to, each as its allowed PUs, ascending. Cores that share a
// cache stand next to each other, so do those of a NUMA node and of a package: any stretch of the result is as
// close together as the node allows. PUs that the topology does not know are cores of their own at the end, so a
// zero Topology returns the allowed PUs one by one.
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

// pusByID are the PUs by number.
func (t *Topology) pusByID() map[int]PU {
	places := make(map[int]PU, len(t.PUs))
	for _, pu := range t.PUs {
		places[pu.ID] = pu
	}
	return places
}
