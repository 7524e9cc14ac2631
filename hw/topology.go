package hw

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Topology is the node at one moment.
type Topology struct {
	// PUs are the processing units that are switched on, by ascending number.
	PUs []PU `json:"pus"`
}

// PU is one processing unit and its place. Core and L3 are named by the lowest PU in them, which makes the names
// unique on the node; Node and Package are the kernel's own numbers.
type PU struct {
	ID      int `json:"id"`
	Core    int `json:"core"`
	L3      int `json:"l3"`
	Node    int `json:"node"`
	Package int `json:"package"`
}

// Read reads a sysfs tree, as os.DirFS("/sys") gives it. A machine need not describe everything: without the file
// of a core or a cache, a PU has one of its own, and without nodes all is node 0. Without the list of PUs that are
// switched on, the error is fs.ErrNotExist; a file that cannot be understood is [ErrMalformed].
func Read(fsys fs.FS) (*Topology, error) {
	r := reader{fsys: fsys, pus: map[int]*PU{}}
	online := r.list("devices/system/cpu/online")
	if r.err == nil && online == nil {
		return nil, fmt.Errorf("hw: read devices/system/cpu/online: %w", fs.ErrNotExist)
	}
	for _, id := range online {
		r.pus[id] = &PU{ID: id, Core: -1, L3: -1}
	}
	for _, id := range online {
		r.place(r.pus[id])
	}
	r.nodes()
	if r.err != nil {
		return nil, r.err
	}
	t := &Topology{}
	for _, id := range online {
		t.PUs = append(t.PUs, *r.pus[id])
	}
	return t, nil
}

// reader keeps the first error, so that reading is a list of what there is to read.
type reader struct {
	fsys fs.FS
	pus  map[int]*PU
	err  error
}

// place finds core, package and cache of a PU. One file tells them for all PUs that share them, and is read once.
func (r *reader) place(pu *PU) {
	dir := fmt.Sprintf("devices/system/cpu/cpu%d/", pu.ID)
	if pu.Core < 0 {
		siblings := r.list(dir + "topology/core_cpus_list")
		if siblings == nil {
			siblings = r.list(dir + "topology/thread_siblings_list") // its name before Linux 5.3
		}
		for _, p := range r.group(pu, siblings) {
			p.Core = pu.ID
		}
	}
	if pu.L3 < 0 {
		for _, p := range r.group(pu, r.level3(dir)) {
			p.L3 = pu.ID
		}
	}
	pu.Package = max(0, r.number(dir+"topology/physical_package_id")) // -1 where the firmware does not say
}

// group returns those PUs of a list that are switched on, and pu in any case.
func (r *reader) group(pu *PU, ids []int) []*PU {
	pus := []*PU{pu}
	for _, id := range ids {
		if p := r.pus[id]; p != nil && p != pu {
			pus = append(pus, p)
		}
	}
	return pus
}

// level3 returns the PUs below the same level-3 cache, nil if there is none.
func (r *reader) level3(dir string) []int {
	for index := 0; r.err == nil; index++ {
		cache := fmt.Sprintf("%scache/index%d/", dir, index)
		switch r.number(cache + "level") {
		case 0:
			return nil
		case 3:
			return r.list(cache + "shared_cpu_list")
		}
	}
	return nil
}

func (r *reader) nodes() {
	for _, node := range r.list("devices/system/node/online") {
		for _, id := range r.list(fmt.Sprintf("devices/system/node/node%d/cpulist", node)) {
			if pu := r.pus[id]; pu != nil {
				pu.Node = node
			}
		}
	}
}

// list returns nil for a file that is not there.
func (r *reader) list(name string) []int {
	text, ok := r.file(name)
	if !ok {
		return nil
	}
	ids, err := parseList(text)
	r.fail(name, err)
	return ids
}

// number returns 0 for a file that is not there.
func (r *reader) number(name string) int {
	text, ok := r.file(name)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSuffix(text, "\n"))
	if err != nil || n >= maxID {
		r.fail(name, fmt.Errorf("%w: number %.40q", ErrMalformed, text))
	}
	return n
}

func (r *reader) file(name string) (text string, ok bool) {
	data, err := fs.ReadFile(r.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	r.fail(name, err)
	return string(data), err == nil && r.err == nil
}

func (r *reader) fail(name string, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("hw: read %s: %w", name, err)
	}
}

// Cores returns the cores that the allowed PUs belong to, each as its allowed PUs, ascending. Cores that share a
// cache stand next to each other, so do those of a NUMA node and of a package: any stretch of the result is as
// close together as the node allows. PUs that the topology does not know are cores of their own at the end, so a
// zero Topology returns the allowed PUs one by one.
func (t *Topology) Cores(allowed []int) [][]int {
	known := map[int]PU{}
	for _, pu := range t.PUs {
		known[pu.ID] = pu
	}
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
