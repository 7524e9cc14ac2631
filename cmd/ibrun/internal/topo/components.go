package topo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
)

// component is a drawn part of the machine. It contains other components, or cores.
type component struct {
	kind     string // machine, package, numa, die, cache or device: selects the colour
	title    string
	children []component
	cores    []core
	devices  []string
}

// core is one core, a cell of the picture.
type core struct {
	pus      []int
	unusable bool // none of its PUs may be used
	kind     string
	ranks    []int // bound to one of its PUs
}

// label returns the text of the cell: its PUs and its ranks. Parentheses mean that the core is unusable.
func (c core) label() string {
	s := hw.FormatList(c.pus)
	if len(c.pus) < 3 { // 0,64 reads better than a range
		s = strings.Trim(strings.ReplaceAll(fmt.Sprint(c.pus), " ", ","), "[]")
	}
	s = c.kind + s
	if c.unusable {
		s = "(" + s + ")"
	}
	if len(c.ranks) > 0 {
		s += "=" + c.rankLabel()
	}
	return s
}

func (c core) rankLabel() string {
	return "r" + strings.ReplaceAll(hw.FormatList(c.ranks), ",", "+")
}

// builder builds the components of a topology.
type builder struct {
	top     *hw.Topology
	allowed map[int]bool
	ranks   map[int][]int // PU: the ranks bound to it
}

// machineComponent returns the component of the whole machine. The plan, if not nil, is of one node.
func machineComponent(name string, top *hw.Topology, plan *placement.Plan) component {
	b := builder{top: top, allowed: map[int]bool{}, ranks: map[int][]int{}}
	for _, pu := range top.Allowed {
		b.allowed[pu] = true
	}
	if plan != nil {
		for _, r := range plan.Ranks {
			if r.Bound {
				for _, pu := range r.PUs {
					b.ranks[pu] = append(b.ranks[pu], r.Rank)
				}
			}
		}
	}
	m := component{kind: "machine", title: b.machineTitle(name)}
	for _, p := range top.Packages {
		m.children = append(m.children, b.packageComponent(p))
	}
	for _, n := range top.Nodes {
		if len(n.PUs) == 0 {
			m.children = append(m.children, component{kind: "numa",
				title: fmt.Sprintf("NUMA node %d  %s, without cores, near PUs %s", n.ID,
					b.nodeMemory(n), hw.FormatList(n.Near)), devices: b.attachedDevices(n.ID)})
		}
	}
	m.devices = b.attachedDevices(-1)
	return m
}

func (b *builder) machineTitle(name string) string {
	words := []string{name, memorySize(b.top.Memory), pluralize(len(b.top.Cores), "core"), pluralize(len(b.top.PUs), "PU")}
	if len(b.top.Allowed) < len(b.top.PUs) {
		words = append(words, "usable "+cmp.Or(hw.FormatList(b.top.Allowed), "none"))
	}
	return strings.Join(words, "  ")
}

// nodeMemory formats the memory of a node. If the nodes report less than the machine has, it says that this is a report.
func (b *builder) nodeMemory(n hw.Node) string {
	const tolerance = 64 // such a part may be missing
	inNodes := uint64(0)
	for _, n := range b.top.Nodes {
		inNodes += n.Memory
	}
	if n.Memory != 0 && inNodes < b.top.Memory-b.top.Memory/tolerance {
		return fmt.Sprintf("reports %s of %s", size(n.Memory), size(b.top.Memory))
	}
	return memorySize(n.Memory)
}

func pluralize(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// packageComponent returns the component of a package: its NUMA nodes, and the dies, caches and cores of PUs that are in no NUMA
// node.
func (b *builder) packageComponent(p hw.Package) component {
	bx := component{kind: "package", title: strings.TrimSpace(fmt.Sprintf("package %d  %s", p.ID, p.Model))}
	if p.ID < 0 {
		bx.title = strings.TrimSpace("package  " + p.Model)
	}
	remaining := p.PUs
	for _, n := range b.top.Nodes {
		mine := intersect(n.PUs, remaining)
		if len(mine) == 0 {
			continue
		}
		remaining = subtract(remaining, mine)
		node := b.divideByCache(mine)
		node.kind = "numa"
		node.title = fmt.Sprintf("NUMA node %d  %s", n.ID, b.nodeMemory(n))
		for _, d := range b.top.Dies {
			if len(intersect(mine, d.PUs)) == len(mine) {
				node.title += fmt.Sprintf("  die %d", d.ID)
			}
		}
		if mine[0] == n.PUs[0] { // the devices of a node of several packages are in the first package
			node.devices = b.attachedDevices(n.ID)
		}
		bx.children = append(bx.children, node)
	}
	if len(remaining) > 0 {
		rest := b.divideByCache(remaining)
		bx.children, bx.cores = append(bx.children, rest.children...), rest.cores
	}
	return bx
}

// divideByCache groups PUs by their dies and level-3 caches.
func (b *builder) divideByCache(pus []int) component {
	var bx component
	remaining := pus
	for _, d := range b.top.Dies {
		if mine := intersect(d.PUs, remaining); len(mine) > 0 && len(mine) < len(pus) {
			remaining = subtract(remaining, mine)
			die := b.divideByCache(mine)
			die.kind, die.title = "die", fmt.Sprintf("die %d", d.ID)
			bx.children = append(bx.children, die)
		}
	}
	for _, c := range b.top.Caches {
		mine := intersect(c.PUs, remaining)
		if c.Level != 3 || len(mine) == 0 {
			continue
		}
		remaining = subtract(remaining, mine)
		cores := b.cores(mine)
		bx.children = append(bx.children, component{kind: "cache", title: "L3 " + size(c.Size) + b.smallCaches(mine), cores: cores})
	}
	switch {
	case len(remaining) == 0:
	case len(bx.children) == 0:
		bx.cores = b.cores(remaining)
	default:
		bx.children = append(bx.children, component{kind: "cache", title: "no L3" + b.smallCaches(remaining),
			cores: b.cores(remaining)})
	}
	return bx
}

// smallCaches describes the caches below level 3 by those of the first PU.
func (b *builder) smallCaches(pus []int) string {
	var words []string
	for _, c := range b.top.Caches {
		if c.Level < 3 && slices.Contains(c.PUs, pus[0]) {
			words = append(words, fmt.Sprintf("L%d%s %s", c.Level, map[string]string{"Data": "d", "Instruction": "i"}[c.Type],
				size(c.Size)))
		}
	}
	if words == nil {
		return ""
	}
	return ", " + strings.Join(words, ", ")
}

// cores returns the cores that have some of these PUs.
func (b *builder) cores(pus []int) []core {
	var cores []core
	for _, c := range b.top.Cores {
		mine := intersect(c.PUs, pus)
		if len(mine) == 0 {
			continue
		}
		cell := core{pus: mine, unusable: true}
		if len(b.top.Kinds) > 1 && c.Kind < len(b.top.Kinds) {
			switch c.Kind { // performance cores, efficiency cores, and those in between
			case 0:
				cell.kind = "P:"
			case len(b.top.Kinds) - 1:
				cell.kind = "E:"
			default:
				cell.kind = "M:"
			}
		}
		for _, pu := range mine {
			cell.unusable = cell.unusable && !b.allowed[pu]
			for _, r := range b.ranks[pu] {
				if !slices.Contains(cell.ranks, r) {
					cell.ranks = append(cell.ranks, r)
				}
			}
		}
		slices.Sort(cell.ranks)
		cores = append(cores, cell)
	}
	return cores
}

// attachedDevices describes the devices that are attached to a NUMA node; -1 selects the devices whose node is unknown.
func (b *builder) attachedDevices(node int) []string {
	var lines []string
	used := map[string]bool{} // network interfaces of RDMA devices
	for _, d := range b.top.RDMA {
		var ports []string
		for _, p := range d.Ports {
			used[p.Netdev] = true
			ports = append(ports, strings.TrimSpace(fmt.Sprintf("%d: %s %s %s %s", p.Number, p.State, p.LinkLayer,
				speed(p.Rate), p.Netdev)))
		}
		if d.NUMA == node {
			line := fmt.Sprintf("NIC %s  %s  port %s", d.Name, cmp.Or(d.PCI, "virtual"), strings.Join(ports, ", port "))
			if d.AccessError != nil {
				line += "  cannot be opened: " + d.AccessError.Reason
			}
			lines = append(lines, line+formatProblems(d.Problems))
		}
	}
	for _, n := range b.top.Netdevs {
		if n.NUMA == node && n.PCI != "" && !used[n.Name] {
			lines = append(lines, fmt.Sprintf("net %s  %s  %s %s", n.Name, n.PCI, n.State, speed(n.Speed))+formatProblems(n.Problems))
		}
	}
	for _, list := range []struct {
		word    string
		devices []hw.Device
	}{{"GPU", b.top.GPUs}, {"NVMe", b.top.NVMe}} {
		for _, d := range list.devices {
			if d.NUMA == node {
				name := cmp.Or(strings.TrimSuffix(d.Name, d.PCI), d.Model, d.ID)
				line := fmt.Sprintf("%s %s  %s", list.word, name, d.PCI)
				for _, word := range []string{d.Driver, d.Model} {
					if word != "" && word != name {
						line += "  " + word
					}
				}
				lines = append(lines, line+formatProblems(d.Problems))
			}
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}

func formatProblems(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return "  (" + strings.Join(list, "; ") + ")"
}

// intersect returns the numbers that are in both a and b, in the order of a.
func intersect(a, b []int) []int {
	inB := make(map[int]bool, len(b))
	for _, n := range b {
		inB[n] = true
	}
	var both []int
	for _, n := range a {
		if inB[n] {
			both = append(both, n)
		}
	}
	return both
}

// subtract returns the numbers of a that are not in b.
func subtract(a, b []int) []int {
	inB := make(map[int]bool, len(b))
	for _, n := range b {
		inB[n] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(n int) bool { return inB[n] })
}

// memorySize formats the size of memory. 0 means that a node has no memory or does not report it.
func memorySize(n uint64) string {
	if n == 0 {
		return "no known memory"
	}
	return size(n)
}

// size formats bytes with a power of 1024.
func size(n uint64) string {
	switch {
	case n == 0:
		return "size unknown"
	case n >= 1<<30:
		return fmt.Sprintf("%.4g GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.4g KiB", float64(n)/(1<<10))
}

// speed formats bits per second.
func speed(bits uint64) string {
	if bits == 0 {
		return ""
	}
	return fmt.Sprintf("%.4g Gb/s", float64(bits)/1e9)
}
