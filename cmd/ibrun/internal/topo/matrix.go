package topo

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ibrun/ibrun/hw"
)

// item is a row and a column of the matrix: the cores of a NUMA node, or a device.
type item struct {
	name     string
	node     int // index into Topology.Nodes, -1 for a device
	location hw.Location
}

// matrixItems returns the rows of the matrix: NUMA nodes, NICs and GPUs.
func matrixItems(top *hw.Topology) []item {
	var all []item
	for i, n := range top.Nodes {
		all = append(all, item{name: fmt.Sprintf("node%d", n.ID), node: i})
	}
	used := map[string]bool{} // network interfaces of RDMA devices
	for i := range top.RDMA {
		d := &top.RDMA[i]
		for _, p := range d.Ports {
			used[p.Netdev] = true
		}
		all = append(all, item{d.Name, -1, d.Location()})
	}
	for i := range top.Netdevs {
		if n := &top.Netdevs[i]; n.PCI != "" && !used[n.Name] {
			all = append(all, item{n.Name, -1, n.Location()})
		}
	}
	for i := range top.GPUs {
		all = append(all, item{top.GPUs[i].Name, -1, top.GPUs[i].Location()})
	}
	return all
}

// pathLabel returns a cell of the matrix: the firmware's distance for two NUMA nodes, otherwise the path.
func pathLabel(top *hw.Topology, a, b item) string {
	switch {
	case a.node >= 0 && b.node >= 0:
		if d := top.Nodes[a.node].Distances; d != nil {
			return fmt.Sprint(d[b.node])
		}
		if a.node == b.node {
			return string(hw.PathSelf)
		}
		return string(hw.PathUnknown)
	case a.node >= 0:
		return string(top.PathFrom(top.Nodes[a.node].Near, b.location))
	case b.node >= 0:
		return string(top.PathFrom(top.Nodes[b.node].Near, a.location))
	case a.name == b.name:
		return string(hw.PathSelf)
	}
	return string(top.PathBetween(a.location, b.location))
}

const legend = `
  X     the same
  PIX   at most one PCI bridge or switch
  PXB   several of them, and no host bridge
  PHB   a host bridge of the CPU; from cores: that of their NUMA node
  NODE  host bridges or NUMA nodes within one package
  SYS   the link between packages
  ?     the machine does not report it
  number  distance of NUMA nodes, 10 is the node itself
`

// maxItems bounds the size of the matrix, which is unreadable if larger.
const maxItems = 512

// writeMatrix writes the path between each two items, in the format of nvidia-smi topo -m.
func writeMatrix(b *strings.Builder, top *hw.Topology) {
	all := matrixItems(top)
	if len(all) > maxItems {
		fmt.Fprintf(b, "no matrix: %d NUMA nodes and devices exceed the maximum of %d\n", len(all), maxItems)
		return
	}
	width := 6
	for _, it := range all {
		width = max(width, len(it.name)+2)
	}
	fmt.Fprintf(b, "%-*s", width, "")
	for _, it := range all {
		fmt.Fprintf(b, "%-*s", width, it.name)
	}
	b.WriteString("NUMA  PUs\n")
	for _, row := range all {
		fmt.Fprintf(b, "%-*s", width, row.name)
		for _, column := range all {
			fmt.Fprintf(b, "%-*s", width, pathLabel(top, row, column))
		}
		node, pus := row.location.NUMA, row.location.LocalPUs
		if row.node >= 0 {
			node, pus = top.Nodes[row.node].ID, top.Nodes[row.node].PUs
		}
		where := "?"
		if node >= 0 {
			where = fmt.Sprint(node)
		}
		fmt.Fprintf(b, "%-6s%s\n", where, cmp.Or(hw.FormatList(pus), "-"))
	}
	b.WriteString(legend)
}
