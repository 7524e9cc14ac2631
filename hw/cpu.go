package hw

import (
	"fmt"
	"io/fs"
	"slices"
)

const (
	dirCPU  = "sys/devices/system/cpu/"
	dirNode = "sys/devices/system/node/"
)

// cpuReader reads packages, NUMA nodes, caches, cores and PUs into a Topology.
type cpuReader struct {
	reader
	onlyPUs bool // read only what Topology.PUs needs
	top     *Topology
	online  []int
	puByID  map[int]*PU
	groups  [][]int // all sets of PUs that belong together
}

// readPUs finds the core, package, caches and NUMA node of every PU. A file that describes a whole set of PUs is read
// once for the set. A PU belongs to one core, one package and so on: the first one that claims it.
func (r *cpuReader) readPUs() {
	r.failFast = true
	defer func() { r.failFast = false }()
	r.findOnline()
	var hasPackage, hasDie, hasCluster = map[int]bool{}, map[int]bool{}, map[int]bool{}
	hasCache := map[int]map[cacheKind]bool{}
	for _, id := range r.online {
		if r.err != nil {
			return
		}
		pu, dir := r.puByID[id], fmt.Sprintf("%scpu%d/", dirCPU, id)
		if pu.Core < 0 {
			r.readCore(pu, dir+"topology/")
		}
		if !hasPackage[id] {
			r.readPackage(pu, dir+"topology/", hasPackage)
		}
		if !r.onlyPUs && !hasDie[id] {
			r.readDie(pu, dir+"topology/", hasDie)
		}
		if !r.onlyPUs && !hasCluster[id] {
			r.readCluster(pu, dir+"topology/", hasCluster)
		}
		r.readCaches(pu, dir, hasCache)
	}
	r.readNodes()
	for _, id := range r.online {
		pu := r.puByID[id]
		if pu.L3 < 0 {
			pu.L3 = pu.Core
		}
		r.top.PUs = append(r.top.PUs, *pu)
	}
}

// findOnline lists the online PUs. Kernels before 2.6.29 have one file for each PU instead of a list.
func (r *cpuReader) findOnline() {
	ids, ok := r.readList(dirCPU + "online")
	if !ok && r.err == nil {
		r.failFast = false // the first PU often has no such file, and a PU of unknown state is online
		for _, id := range r.numberedEntries(dirCPU[:len(dirCPU)-1], "cpu") {
			if id < maxID && r.readInt(fmt.Sprintf("%scpu%d/online", dirCPU, id), 1) != 0 {
				ids = append(ids, id)
			}
		}
		r.failFast = true
	}
	if r.err == nil && len(ids) == 0 {
		r.err = fmt.Errorf("hw: read %sonline: %w", dirCPU, fs.ErrNotExist)
	}
	r.online = ids
	for _, id := range ids {
		r.puByID[id] = &PU{ID: id, Core: -1, L3: -1, Node: -1}
	}
}

// claimGroup returns the PUs of a set that are online and in no other group, plus pu itself. Each PU of a set, such as
// the PUs of a core, has its own copy of the set. If the copies contradict each other, the first one counts and the
// contradiction is added to the problems.
func (r *cpuReader) claimGroup(pu *PU, what string, ids []int, taken func(*PU) bool) []int {
	group := []int{pu.ID}
	var others []int
	for _, id := range ids {
		switch p := r.puByID[id]; {
		case p == nil || p == pu:
		case taken(p):
			others = append(others, id)
		default:
			group = append(group, id)
		}
	}
	if others != nil {
		r.problems = append(r.problems, fmt.Sprintf("%scpu%d: claims to share its %s with PUs %.40s, which claim another",
			dirCPU, pu.ID, what, FormatList(others)))
	}
	slices.Sort(group)
	return group
}

// addGroup records a set of PUs that belong together, which sortLists uses, and returns it.
func (r *cpuReader) addGroup(pus []int) []int {
	r.groups = append(r.groups, pus)
	return pus
}

// readCore reads the core of a PU.
func (r *cpuReader) readCore(pu *PU, dir string) {
	// Linux 5.3 renamed thread_siblings to core_cpus.
	siblings, _ := r.readSet(dir, "core_cpus", "core_cpus_list", "thread_siblings", "thread_siblings_list")
	pus := r.claimGroup(pu, "core", siblings, func(p *PU) bool { return p.Core >= 0 })
	for _, id := range pus {
		r.puByID[id].Core = pu.ID
	}
	if !r.onlyPUs {
		r.top.Cores = append(r.top.Cores, Core{ID: r.readInt(dir+"core_id", -1), PUs: r.addGroup(pus)})
	}
}

// readPackage reads the package of a PU. If only the package number is known, PUs with the same number form one package.
func (r *cpuReader) readPackage(pu *PU, dir string, hasPackage map[int]bool) {
	siblings, found := r.readSet(dir, "package_cpus", "package_cpus_list", "core_siblings", "core_siblings_list")
	id := r.readInt(dir+"physical_package_id", -1)
	pus := r.claimGroup(pu, "package", siblings, func(p *PU) bool { return hasPackage[p.ID] })
	for _, member := range pus {
		hasPackage[member] = true
		r.puByID[member].Package = max(0, id)
	}
	if r.onlyPUs {
		return
	}
	at := slices.IndexFunc(r.top.Packages, func(p Package) bool { return !found && p.ID == id })
	switch {
	case !found && id < 0: // the machine describes no packages
	case at < 0:
		r.top.Packages = append(r.top.Packages, Package{ID: id, PUs: pus})
	default:
		r.top.Packages[at].PUs = append(r.top.Packages[at].PUs, pu.ID)
	}
}

// readDie reads the die of a PU.
func (r *cpuReader) readDie(pu *PU, dir string, hasDie map[int]bool) {
	siblings, found := r.readSet(dir, "die_cpus", "die_cpus_list")
	pus := r.claimGroup(pu, "die", siblings, func(p *PU) bool { return hasDie[p.ID] })
	for _, id := range pus {
		hasDie[id] = true
	}
	if found && len(pus) > 1 {
		r.top.Dies = append(r.top.Dies, Die{ID: r.readInt(dir+"die_id", -1), PUs: pus})
	}
}

// readCluster reads the cores that share a resource below the level-3 cache. Clusters affect only the order of the
// lists.
func (r *cpuReader) readCluster(pu *PU, dir string, hasCluster map[int]bool) {
	siblings, found := r.readSet(dir, "cluster_cpus", "cluster_cpus_list")
	pus := r.claimGroup(pu, "cluster", siblings, func(p *PU) bool { return hasCluster[p.ID] })
	for _, id := range pus {
		hasCluster[id] = true
	}
	if found && len(pus) > 1 {
		r.addGroup(pus)
	}
}
