package hw

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// readDetails reads all other properties of packages, nodes and cores after readPUs, and sorts the lists.
func (r *cpuReader) readDetails() {
	r.dropLoneDies()
	r.readNodeDetails()
	r.readKinds()
	r.readModels()
	r.sortLists()
	r.top.Allowed = r.online
	if r.top.Affinity != nil {
		r.top.Allowed = intersect(r.top.Allowed, r.top.Affinity)
	}
	r.top.Cgroup = r.readCgroup()
	if r.top.Cgroup != nil && r.top.Cgroup.PUs != nil {
		r.top.Allowed = intersect(r.top.Allowed, r.top.Cgroup.PUs)
	}
}

// dropLoneDies removes the die of each package that has only one.
func (r *cpuReader) dropLoneDies() {
	r.top.Dies = slices.DeleteFunc(r.top.Dies, func(d Die) bool {
		return slices.ContainsFunc(r.top.Packages, func(p Package) bool { return slices.Equal(p.PUs, d.PUs) })
	})
}

// readKinds finds the kinds of cores. On Intel processors each kind is a device in sysfs; on others the kinds differ in
// capacity.
func (r *cpuReader) readKinds() {
	t := r.top
	for _, name := range []string{"cpu_core", "cpu_atom", "cpu_lowpower"} {
		if pus, ok := r.readList("sys/devices/" + name + "/cpus"); ok {
			if pus = intersect(r.online, pus); len(pus) > 0 {
				t.Kinds = append(t.Kinds, Kind{Name: name, PUs: pus})
			}
		}
	}
	described := 0
	for _, k := range t.Kinds {
		described += len(k.PUs)
	}
	if described != len(r.online) {
		t.Kinds = r.kindsByCapacity()
	}
	kindOf := map[int]int{}
	for i, k := range t.Kinds {
		for _, id := range k.PUs {
			kindOf[id] = i
		}
	}
	for i := range t.Cores {
		t.Cores[i].Kind = kindOf[t.Cores[i].PUs[0]]
	}
}

// kindsByCapacity groups the PUs by the capacity that the scheduler uses.
func (r *cpuReader) kindsByCapacity() []Kind {
	by := map[int][]int{}
	for i, id := range r.online {
		capacity := r.readInt(fmt.Sprintf("%scpu%d/cpu_capacity", dirCPU, id), 0)
		by[capacity] = append(by[capacity], id)
		if i == 0 && capacity == 0 {
			by[0] = r.online // the kernel provides it for all PUs or for none
			break
		}
	}
	var kinds []Kind
	for capacity, pus := range by {
		kinds = append(kinds, Kind{Name: "capacity", Capacity: capacity, PUs: pus})
	}
	slices.SortFunc(kinds, func(a, b Kind) int { return cmp.Compare(b.Capacity, a.Capacity) })
	return kinds
}

// readModels sets the model name of each package to that of its first PU. /proc/cpuinfo is long, so readModels stops
// after the last missing name.
func (r *cpuReader) readModels() {
	data, err := readHead(r.fsys, "proc/cpuinfo", 4<<20)
	if !notProvided(err) {
		r.addProblem("proc/cpuinfo", err)
	}
	missing := map[int]*Package{}
	for i := range r.top.Packages {
		missing[r.top.Packages[i].PUs[0]] = &r.top.Packages[i]
	}
	pu := -1
	for line := range strings.Lines(string(data)) {
		if len(missing) == 0 {
			break
		}
		key, text, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "processor":
			pu = -1
			if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16); err == nil {
				pu = int(n)
			}
		case "model name":
			if p := missing[pu]; p != nil {
				p.Model = strings.TrimSpace(text)
				delete(missing, pu)
			}
		}
	}
}

// intersect returns the common members of two ascending sets.
func intersect(a, b []int) []int {
	both := []int{}
	for _, id := range a {
		if _, found := slices.BinarySearch(b, id); found {
			both = append(both, id)
		}
	}
	return both
}
