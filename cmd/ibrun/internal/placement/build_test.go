package placement

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/hw"
)

// shape describes a synthetic machine. Numbers are per object of the level above. As on most machines, the first threads of
// all cores have the lowest PU numbers.
type shape struct {
	packages, nodes, l3s, cores, threads int
	nics                                 int // per NUMA node
}

func (s shape) topology() *hw.Topology {
	total := s.packages * s.nodes * s.l3s * s.cores
	top := &hw.Topology{}
	core := 0
	for p := range s.packages {
		pkg := hw.Package{ID: p}
		for n := range s.nodes {
			node := hw.Node{ID: p*s.nodes + n}
			for range s.l3s {
				first := core
				l3 := hw.Cache{Level: 3, Type: "Unified"}
				for range s.cores {
					var pus []int
					for t := range s.threads {
						pu := hw.PU{ID: core + t*total, Core: core, L3: first, Node: node.ID, Package: p}
						top.PUs = append(top.PUs, pu)
						pus = append(pus, pu.ID)
					}
					top.Cores = append(top.Cores, hw.Core{ID: core, PUs: pus})
					top.Caches = append(top.Caches, hw.Cache{Level: 2, Type: "Unified", PUs: pus},
						hw.Cache{Level: 1, Type: "Data", PUs: pus}, hw.Cache{Level: 1, Type: "Instruction", PUs: pus})
					l3.PUs = append(l3.PUs, pus...)
					core++
				}
				slices.Sort(l3.PUs)
				top.Caches = append(top.Caches, l3)
				node.PUs = append(node.PUs, l3.PUs...)
			}
			slices.Sort(node.PUs)
			node.Near = node.PUs
			pkg.PUs = append(pkg.PUs, node.PUs...)
			top.Nodes = append(top.Nodes, node)
		}
		slices.Sort(pkg.PUs)
		top.Packages = append(top.Packages, pkg)
	}
	for i := range top.Nodes {
		n := &top.Nodes[i]
		for j := range top.Nodes {
			d := 10
			if i != j {
				d = 12
			}
			if i/s.nodes != j/s.nodes {
				d = 32
			}
			n.Distances = append(n.Distances, d)
		}
		for range s.nics {
			top.RDMA = append(top.RDMA, hw.RDMADevice{Name: fmt.Sprintf("mlx5_%d", len(top.RDMA)), NUMA: n.ID, LocalPUs: n.PUs,
				PCI: fmt.Sprintf("0000:%02x:00.0", len(top.RDMA)), Chars: []hw.CharDevice{{Kind: "uverbs", Name: "uverbs0"}},
				Ports: []hw.RDMAPort{{Number: 1, State: hw.PortActive}}})
		}
	}
	for i := range total * s.threads {
		top.Allowed = append(top.Allowed, i)
	}
	return top
}

// policy returns the policy of "flag=value" words.
func policy(t testing.TB, words ...string) Policy {
	t.Helper()
	var p Policy
	for _, w := range words {
		name, value := w, "true"
		for i := range w {
			if w[i] == '=' {
				name, value = w[:i], w[i+1:]
				break
			}
		}
		if err := p.Set(name, value); err != nil {
			t.Fatalf("%s: %v", w, err)
		}
	}
	return p
}
