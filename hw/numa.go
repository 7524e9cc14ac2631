package hw

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// gpusNVIDIA is where NVIDIA's driver describes its GPUs.
const gpusNVIDIA = "proc/driver/nvidia/gpus"

// readNodes finds the NUMA node of every PU. If the firmware puts a PU into several nodes, the first one counts.
func (r *cpuReader) readNodes() {
	ids, ok := r.readList(dirNode + "online")
	if !ok && r.err == nil {
		ids = r.numberedEntries(dirNode[:len(dirNode)-1], "node")
	}
	if len(ids) == 0 {
		for _, pu := range r.puByID {
			pu.Node = 0
		}
		r.addNode(Node{PUs: slices.Clone(r.online)})
		return
	}
	for _, id := range ids {
		dir := fmt.Sprintf("%snode%d/", dirNode, id)
		claimed, _ := r.readSet(dir, "cpumap", "cpulist")
		pus := []int{}
		taken := false
		for _, member := range claimed {
			if pu := r.puByID[member]; pu != nil {
				taken = taken || pu.Node >= 0
				pus = append(pus, member)
			}
		}
		if taken {
			r.problems = append(r.problems, dir+"cpulist: claims PUs that another node has; it is left out")
			continue
		}
		for _, member := range pus {
			r.puByID[member].Node = id
		}
		r.addNode(Node{ID: id, PUs: pus})
	}
}

// addNode appends a node to the topology.
func (r *cpuReader) addNode(n Node) {
	if !r.onlyPUs {
		r.top.Nodes = append(r.top.Nodes, n)
	}
}

// readNodeDetails reads memory, distances and local PUs of the nodes, and the memory of the machine. The nodes must still be in
// the order of their numbers.
func (r *cpuReader) readNodeDetails() {
	described := len(r.numberedEntries(dirNode[:len(dirNode)-1], "node")) > 0
	r.top.Memory = parseFile(&r.reader, "proc/meminfo", parseMemory)
	var inNodes uint64
	for i := range r.top.Nodes {
		n := &r.top.Nodes[i]
		dir := fmt.Sprintf("%snode%d/", dirNode, n.ID)
		if described {
			n.Memory = parseFile(&r.reader, dir+"meminfo", parseMemory)
			n.Distances = parseFile(&r.reader, dir+"distance", parseDistances)
			if len(n.Distances) != len(r.top.Nodes) {
				n.Distances = nil
			}
		} else {
			n.Memory = r.top.Memory
		}
		inNodes += n.Memory
	}
	if r.top.Memory == 0 {
		r.top.Memory = inNodes
	}
	for i := range r.top.Nodes {
		r.top.Nodes[i].Near = r.nodeLocalPUs(i)
	}
	for _, gpu := range r.readDirNames(gpusNVIDIA) {
		id := parseFile(&r.reader, path.Join(gpusNVIDIA, gpu, "numa_status"), parseNumaStatus)
		if i := slices.IndexFunc(r.top.Nodes, func(n Node) bool { return n.ID == id }); i >= 0 && id > 0 {
			r.top.Nodes[i].GPU = gpu
		}
	}
}

// nodeLocalPUs returns the PUs closest to the memory of node i. These are its own PUs and those of its best initiators
// according to the firmware. If there are neither, they are the PUs of the nodes at the smallest distance. If the
// distances do not distinguish nodes, they are all PUs.
func (r *cpuReader) nodeLocalPUs(i int) []int {
	nodes := r.top.Nodes
	best := map[int]bool{i: true}
	for _, access := range []string{"access1", "access0"} { // access1 has only initiators that are PUs; since Linux 5.10
		initiators := r.numberedEntries(fmt.Sprintf("%snode%d/%s/initiators", dirNode, nodes[i].ID, access), "node")
		for j := range nodes {
			if len(initiators) > 0 && slices.Contains(initiators, nodes[j].ID) {
				best[j] = true
			}
		}
		if len(initiators) > 0 {
			break
		}
	}
	if pus := r.pusOf(best); len(pus) > 0 {
		return pus
	}
	d := nodes[i].Distances
	least := minDistance(d, i)
	for j := range d {
		best[j] = j != i && d[j] == least
	}
	if pus := r.pusOf(best); len(pus) > 0 && least > d[i] {
		return pus
	}
	return r.online
}

// minDistance returns the smallest distance from node i to another node.
func minDistance(d []int, i int) int {
	least := math.MaxInt
	for j, n := range d {
		if j != i {
			least = min(least, n)
		}
	}
	return least
}

// pusOf returns the union of the PUs of the given nodes.
func (r *cpuReader) pusOf(nodes map[int]bool) []int {
	var pus []int
	for i, chosen := range nodes {
		if chosen {
			pus = append(pus, r.top.Nodes[i].PUs...)
		}
	}
	slices.Sort(pus)
	return pus
}

// parseMemory parses MemTotal in a meminfo file, such as "Node 0 MemTotal: 8349904 kB", and returns bytes.
func parseMemory(text string) (uint64, error) {
	for line := range strings.Lines(text) {
		_, rest, found := strings.Cut(line, "MemTotal:")
		digits, whole := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		if !found {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 50)
		if !whole || err != nil || !strings.HasSuffix(line, "\n") {
			return 0, malformed("memory", line)
		}
		return n << 10, nil
	}
	return 0, malformed("memory", text)
}

// parseDistances parses a line of distances such as "10 21\n".
func parseDistances(text string) ([]int, error) {
	body, whole := strings.CutSuffix(text, "\n")
	var distances []int
	for word := range strings.FieldsSeq(body) {
		n, err := strconv.ParseUint(word, 10, 31)
		if err != nil {
			return nil, malformed("distances", text)
		}
		distances = append(distances, int(n))
	}
	if !whole || len(distances) == 0 {
		return nil, malformed("distances", text)
	}
	return distances, nil
}

// parseNumaStatus parses the NUMA node of a GPU in its driver's file, such as "Node: 255". It is -1 for a GPU whose
// memory is not a NUMA node.
func parseNumaStatus(text string) (int, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "Node:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 31)
			if err != nil || !strings.HasSuffix(line, "\n") {
				return -1, malformed("node", line)
			}
			return int(n), nil
		}
	}
	return -1, nil
}
