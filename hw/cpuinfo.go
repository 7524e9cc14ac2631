package hw

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// readDetails reads what is known of packages, nodes and cores besides the places of PUs, and puts all into order.
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

// dropLoneDies leaves the dies of packages that have several.
func (r *cpuReader) dropLoneDies() {
	r.top.Dies = slices.DeleteFunc(r.top.Dies, func(d Die) bool {
		return slices.ContainsFunc(r.top.Packages, func(p Package) bool { return slices.Equal(p.PUs, d.PUs) })
	})
}

// sortLists sorts all lists. The place of a PU is the chain of sets that it is in, largest first, each by its lowest PU.
func (r *cpuReader) sortLists() {
	t := r.top
	for _, p := range t.Packages {
		r.addGroup(p.PUs)
	}
	for _, d := range t.Dies {
		r.addGroup(d.PUs)
	}
	for _, n := range t.Nodes {
		if len(n.Near) < len(r.online) {
			r.addGroup(n.Near)
		}
	}
	slices.SortStableFunc(r.groups, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
	chains := map[int][]int{}
	for _, pus := range r.groups {
		for _, id := range pus {
			chains[id] = append(chains[id], pus[0])
		}
	}
	slices.SortFunc(t.PUs, func(a, b PU) int {
		return cmp.Or(slices.Compare(chains[a.ID], chains[b.ID]), cmp.Compare(a.ID, b.ID))
	})
	place := map[int]int{}
	for i, pu := range t.PUs {
		place[pu.ID] = i
	}
	by := func(a, b []int) int { return cmp.Compare(place[a[0]], place[b[0]]) }
	slices.SortFunc(t.Packages, func(a, b Package) int { return by(a.PUs, b.PUs) })
	slices.SortFunc(t.Dies, func(a, b Die) int { return by(a.PUs, b.PUs) })
	slices.SortFunc(t.Cores, func(a, b Core) int { return by(a.PUs, b.PUs) })
	slices.SortStableFunc(t.Caches, func(a, b Cache) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(cacheOrder(a), cacheOrder(b)), by(a.PUs, b.PUs))
	})
	r.sortNodes(place)
}

func cacheOrder(c Cache) int { return slices.Index([]string{"Unified", "Data", "Instruction"}, c.Type) }

// sortNodes sorts nodes by the last of the PUs that they are near to, so that one for few comes before one for more;
// and their distances likewise.
func (r *cpuReader) sortNodes(place map[int]int) {
	last := make([]int, len(r.top.Nodes))
	order := make([]int, len(r.top.Nodes))
	for i, n := range r.top.Nodes {
		order[i] = i
		for _, id := range n.Near {
			last[i] = max(last[i], place[id])
		}
	}
	was := r.top.Nodes
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(last[i], last[j]), cmp.Compare(len(was[i].Near), len(was[j].Near)), cmp.Compare(i, j))
	})
	r.top.Nodes = make([]Node, len(was))
	for i, from := range order {
		n := was[from]
		if n.Distances != nil {
			n.Distances = make([]int, len(was))
			for j, to := range order {
				n.Distances[j] = was[from].Distances[to]
			}
		}
		r.top.Nodes[i] = n
	}
}

// readKinds finds the kinds of cores. Intel's are devices of their own, others differ in capacity.
func (r *cpuReader) readKinds() {
	t := r.top
	for _, name := range []string{"cpu_core", "cpu_atom", "cpu_lowpower"} {
		if pus, ok := r.readList("sys/devices/" + name + "/cpus"); ok {
			if pus = intersect(r.online, pus); len(pus) > 0 {
				t.Kinds = append(t.Kinds, Kind{Name: name, PUs: pus})
			}
		}
	}
	told := 0
	for _, k := range t.Kinds {
		told += len(k.PUs)
	}
	if told != len(r.online) {
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

// kindsByCapacity sorts the PUs by what the scheduler takes them to be capable of.
func (r *cpuReader) kindsByCapacity() []Kind {
	by := map[int][]int{}
	for i, id := range r.online {
		capacity := r.readInt(fmt.Sprintf("%scpu%d/cpu_capacity", dirCPU, id), 0)
		by[capacity] = append(by[capacity], id)
		if i == 0 && capacity == 0 {
			by[0] = r.online // the kernel says it for all or for none
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

// readModels names the packages by what the kernel calls their first PU. The table is long, and ends where the last name is
// found.
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

// readCgroup reads the cpuset that this process is in: where its hierarchy is mounted, and the path in it.
func (r *cpuReader) readCgroup() *Cgroup {
	mount, prefix, suffix := r.findCpusetMount()
	if mount == "" {
		return nil
	}
	g := &Cgroup{Path: r.readCpusetPath()}
	dir := strings.TrimPrefix(path.Join(mount, path.Clean("/"+g.Path)), "/") + "/"
	if pus, ok := r.readList(dir + prefix + "cpus" + suffix); ok {
		g.PUs = intersect(r.online, pus)
	}
	g.Nodes, _ = r.readList(dir + prefix + "mems" + suffix)
	return g
}

// findCpusetMount finds the hierarchy of cpusets, and how its files are called: that of version 2 if it has cpusets, of
// version 1, or the file system from before there were cgroups.
func (r *cpuReader) findCpusetMount() (dir, prefix, suffix string) {
	data, err := readHead(r.fsys, "proc/mounts", 1<<20)
	if !notProvided(err) {
		r.addProblem("proc/mounts", err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 4 || !path.IsAbs(f[1]) {
			continue
		}
		dir, options := path.Clean(unescape(f[1])), strings.Split(f[3], ",")
		switch {
		case f[2] == "cgroup2":
			controllers, _ := r.readText(strings.TrimPrefix(dir, "/") + "/cgroup.controllers")
			if slices.Contains(strings.Fields(controllers), "cpuset") {
				return dir, "cpuset.", ".effective"
			}
		case f[2] == "cpuset", f[2] == "cgroup" && slices.Contains(options, "cpuset") && slices.Contains(options, "noprefix"):
			return dir, "", ""
		case f[2] == "cgroup" && slices.Contains(options, "cpuset"):
			return dir, "cpuset.", ""
		}
	}
	return "", "", ""
}

// unescape turns what mounts writes for blanks back.
func unescape(name string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(name)
}

// readCpusetPath is this process's place in the hierarchy.
func (r *cpuReader) readCpusetPath() string {
	if text, ok := r.readText("proc/self/cpuset"); ok {
		return strings.TrimSuffix(text, "\n")
	}
	text, _ := r.readText("proc/self/cgroup")
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, place, _ := strings.Cut(rest, ":")
		if controllers == "" || slices.Contains(strings.Split(controllers, ","), "cpuset") {
			return place
		}
	}
	return "/"
}

// intersect returns what two ascending sets have in common.
func intersect(a, b []int) []int {
	both := []int{}
	for _, id := range a {
		if _, found := slices.BinarySearch(b, id); found {
			both = append(both, id)
		}
	}
	return both
}
