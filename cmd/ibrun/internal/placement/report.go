package placement

import (
	"fmt"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// Report returns the output of --report-bindings, a line for each rank and then the notes:
//
//	rank 0 on node1 bound to package[0][core:0-3], PUs 0-3,64-67, memory of NUMA node 0, mlx5_0:1
//
// Cores are numbered within their package, in the order of the machine.
func (p *Plan) Report() string {
	var b strings.Builder
	for _, r := range p.Ranks {
		m := p.Machines[r.Node]
		fmt.Fprintf(&b, "rank %d on %s ", r.Rank, m.Name)
		if r.Bound {
			fmt.Fprintf(&b, "bound to %s, PUs %s", coreNames(m.Top, r.PUs), hw.FormatList(r.PUs))
		} else {
			fmt.Fprintf(&b, "not bound, PUs %s", hw.FormatList(r.PUs))
		}
		switch len(r.Memory) {
		case 0:
		case 1:
			fmt.Fprintf(&b, ", memory of NUMA node %d", r.Memory[0])
		default:
			fmt.Fprintf(&b, ", memory of NUMA nodes %s", hw.FormatList(r.Memory))
		}
		for _, device := range []hw.Choice{r.NIC, r.GPU} {
			if device.Name != "" {
				fmt.Fprintf(&b, ", %v", device)
			}
		}
		b.WriteByte('\n')
	}
	for _, note := range p.Notes {
		fmt.Fprintf(&b, "%s\n", note)
	}
	return b.String()
}

// coreNames returns PUs in the form package[0][core:0-3], and package[0][hwt:0] for single hardware threads of a core.
func coreNames(top *hw.Topology, pus []int) string {
	chosen := map[int]bool{}
	for _, pu := range pus {
		chosen[pu] = true
	}
	var all []int // every PU: core numbers include cores that may not be used
	where := map[int]hw.PU{}
	for _, pu := range top.PUs {
		all = append(all, pu.ID)
		where[pu.ID] = pu
	}
	type part struct{ cores, threads []int }
	parts, order, count := map[int]*part{}, []int(nil), map[int][2]int{}
	for _, core := range top.CoresOf(all) {
		id := where[core[0]].Package
		before := count[id]
		some := 0
		for i, pu := range core {
			if !chosen[pu] {
				continue
			}
			some++
			if parts[id] == nil {
				parts[id] = &part{}
				order = append(order, id)
			}
			parts[id].threads = append(parts[id].threads, before[1]+i)
		}
		if some == len(core) {
			parts[id].cores = append(parts[id].cores, before[0])
			parts[id].threads = parts[id].threads[:len(parts[id].threads)-some]
		}
		count[id] = [2]int{before[0] + 1, before[1] + len(core)}
	}
	var b strings.Builder
	for _, id := range order {
		fmt.Fprintf(&b, "package[%d]", id)
		if p := parts[id]; len(p.cores) > 0 {
			fmt.Fprintf(&b, "[core:%s]", hw.FormatList(p.cores))
		}
		if p := parts[id]; len(p.threads) > 0 {
			fmt.Fprintf(&b, "[hwt:%s]", hw.FormatList(p.threads))
		}
	}
	return b.String()
}
