package topo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
)

// box is a part of the machine, as it is drawn: parts inside it, or cores.
type box struct {
	kind    string // machine, package, numa, die, cache or device: how it is coloured
	title   string
	inside  []box
	cores   []core
	devices []string
}

// core is a cell of the picture.
type core struct {
	pus   []int
	away  bool // not one of its PUs may be used
	kind  string
	ranks []int // bound to one of its PUs
}

// label is what stands in the cell: its PUs and its ranks. Parentheses mean that it may not be used.
func (c core) label() string {
	s := hw.FormatList(c.pus)
	if len(c.pus) < 3 { // 0,64 reads better than a range
		s = strings.Trim(strings.ReplaceAll(fmt.Sprint(c.pus), " ", ","), "[]")
	}
	s = c.kind + s
	if c.away {
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

// builder makes boxes of a topology.
type builder struct {
	top     *hw.Topology
	allowed map[int]bool
	ranks   map[int][]int // of each PU: those bound to it
}

// machine makes the box of the whole machine. A plan is of one node.
func machine(name string, top *hw.Topology, plan *placement.Plan) box {
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
	m := box{kind: "machine", title: b.title(name)}
	for _, p := range top.Packages {
		m.inside = append(m.inside, b.pkg(p))
	}
	for _, n := range top.Nodes {
		if len(n.PUs) == 0 {
			m.inside = append(m.inside, box{kind: "numa", title: fmt.Sprintf("NUMA node %d  %s, without cores, near PUs %s", n.ID,
				memorySize(n.Memory), hw.FormatList(n.Near)), devices: b.devices(n.ID)})
		}
	}
	m.devices = b.devices(-1)
	return m
}

func (b *builder) title(name string) string {
	var memory uint64
	for _, n := range b.top.Nodes {
		memory += n.Memory
	}
	words := []string{name, memorySize(memory), counted(len(b.top.Cores), "core"), counted(len(b.top.PUs), "PU")}
	if len(b.top.Allowed) < len(b.top.PUs) {
		words = append(words, "of which may be used "+cmp.Or(hw.FormatList(b.top.Allowed), "none"))
	}
	return strings.Join(words, "  ")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// pkg is a package: its NUMA nodes, or where PUs are in none, what it has below.
func (b *builder) pkg(p hw.Package) box {
	bx := box{kind: "package", title: strings.TrimSpace(fmt.Sprintf("package %d  %s", p.ID, p.Model))}
	if p.ID < 0 {
		bx.title = strings.TrimSpace("package  " + p.Model)
	}
	left := p.PUs
	for _, n := range b.top.Nodes {
		mine := common(n.PUs, left)
		if len(mine) == 0 {
			continue
		}
		left = without(left, mine)
		node := b.caches(mine)
		node.kind = "numa"
		node.title = fmt.Sprintf("NUMA node %d  %s", n.ID, memorySize(n.Memory))
		for _, d := range b.top.Dies {
			if len(common(mine, d.PUs)) == len(mine) {
				node.title += fmt.Sprintf("  die %d", d.ID)
			}
		}
		if mine[0] == n.PUs[0] { // a node of several packages has its devices in the first
			node.devices = b.devices(n.ID)
		}
		bx.inside = append(bx.inside, node)
	}
	if len(left) > 0 {
		rest := b.caches(left)
		bx.inside, bx.cores = append(bx.inside, rest.inside...), rest.cores
	}
	return bx
}

// caches divides PUs by their dies and the largest caches that several cores share.
func (b *builder) caches(pus []int) box {
	var bx box
	left := pus
	for _, d := range b.top.Dies {
		if mine := common(d.PUs, left); len(mine) > 0 && len(mine) < len(pus) {
			left = without(left, mine)
			die := b.caches(mine)
			die.kind, die.title = "die", fmt.Sprintf("die %d", d.ID)
			bx.inside = append(bx.inside, die)
		}
	}
	for _, c := range b.top.Caches {
		mine := common(c.PUs, left)
		if c.Level != 3 || len(mine) == 0 {
			continue
		}
		left = without(left, mine)
		cores := b.cores(mine)
		bx.inside = append(bx.inside, box{kind: "cache", title: "L3 " + size(c.Size) + b.small(mine), cores: cores})
	}
	switch {
	case len(left) == 0:
	case len(bx.inside) == 0:
		bx.cores = b.cores(left)
	default:
		bx.inside = append(bx.inside, box{kind: "cache", title: "no L3" + b.small(left), cores: b.cores(left)})
	}
	return bx
}

// small describes the caches that each core has for itself, or few share, by those of the first core.
func (b *builder) small(pus []int) string {
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

// cores are the cores that have some of these PUs.
func (b *builder) cores(pus []int) []core {
	var cores []core
	for _, c := range b.top.Cores {
		mine := common(c.PUs, pus)
		if len(mine) == 0 {
			continue
		}
		cell := core{pus: mine, away: true}
		if len(b.top.Kinds) > 1 && c.Kind < len(b.top.Kinds) {
			switch c.Kind { // as the field calls them: performance, efficiency, and what is between
			case 0:
				cell.kind = "P:"
			case len(b.top.Kinds) - 1:
				cell.kind = "E:"
			default:
				cell.kind = "M:"
			}
		}
		for _, pu := range mine {
			cell.away = cell.away && !b.allowed[pu]
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

// devices describes the devices that are attached to a NUMA node, of -1 those of which it is not known.
func (b *builder) devices(node int) []string {
	var lines []string
	taken := map[string]bool{} // interfaces that belong to an RDMA device
	for _, d := range b.top.RDMA {
		var ports []string
		for _, p := range d.Ports {
			taken[p.Netdev] = true
			ports = append(ports, strings.TrimSpace(fmt.Sprintf("%d: %s %s %s %s", p.Number, p.State, p.LinkLayer,
				speed(p.Rate), p.Netdev)))
		}
		if d.NUMA == node {
			line := fmt.Sprintf("NIC %s  %s  port %s", d.Name, cmp.Or(d.PCI, "virtual"), strings.Join(ports, ", port "))
			if d.AccessError != nil {
				line += "  cannot be opened: " + d.AccessError.Reason
			}
			lines = append(lines, line+problems(d.Problems))
		}
	}
	for _, n := range b.top.Netdevs {
		if n.NUMA == node && n.PCI != "" && !taken[n.Name] {
			lines = append(lines, fmt.Sprintf("net %s  %s  %s %s", n.Name, n.PCI, n.State, speed(n.Speed))+problems(n.Problems))
		}
	}
	for _, list := range []struct {
		word    string
		devices []hw.Device
	}{{"GPU", b.top.GPUs}, {"NVMe", b.top.NVMe}} {
		for _, d := range list.devices {
			if d.NUMA == node {
				name := cmp.Or(strings.TrimSuffix(d.Name, d.PCI), d.ID)
				lines = append(lines, fmt.Sprintf("%s %s  %s  %s", list.word, name, d.PCI, d.Driver)+problems(d.Problems))
			}
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}

func problems(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return "  (" + strings.Join(list, "; ") + ")"
}

// common are the numbers that both have, in the order of a.
func common(a, b []int) []int {
	has := make(map[int]bool, len(b))
	for _, n := range b {
		has[n] = true
	}
	var both []int
	for _, n := range a {
		if has[n] {
			both = append(both, n)
		}
	}
	return both
}

// without are the numbers of a that b lacks.
func without(a, b []int) []int {
	has := make(map[int]bool, len(b))
	for _, n := range b {
		has[n] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(n int) bool { return has[n] })
}

// memorySize is size for memory. Of a node that has none, and of one that does not tell, nothing more is known than that.
func memorySize(n uint64) string {
	if n == 0 {
		return "no known memory"
	}
	return size(n)
}

// size writes bytes with a power of 1024.
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

// speed writes bits per second.
func speed(bits uint64) string {
	if bits == 0 {
		return ""
	}
	return fmt.Sprintf("%.4g Gb/s", float64(bits)/1e9)
}
