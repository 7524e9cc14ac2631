package launch

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/hw"
)

// machine is what a plan needs to know of the node.
type machine struct {
	host  string
	cores [][]int // allowed cores as PUs, neighbours next to each other
}

// plan says where each rank runs.
type plan struct {
	host    string
	blocks  blocks
	node    int         // this one
	ranks   []placement // of all nodes
	note    string      // one line for the user, or empty
	crowded bool        // there are more ranks on this node than processors
}

// placement is one rank's place.
type placement struct {
	program int
	pus     []int // it may run there; nil on other nodes, which decide that themselves
	bound   bool  // and is bound to them, which all allowed ones need not be
}

// thisMachine reads topology and affinity. A machine that does not tell its topology has as many cores as PUs. An empty
// name is the host's.
func thisMachine(name string) (machine, error) {
	host, err := os.Hostname()
	if err != nil && name == "" {
		return machine{}, fmt.Errorf("find the name of this machine: %w", err)
	}
	host = cmp.Or(name, host)
	allowed, err := hw.Affinity()
	if err != nil {
		return machine{}, err
	}
	top, err := hw.Read(os.DirFS("/"), hw.OnlyPUs)
	if err != nil {
		top = new(hw.Topology)
	}
	return machine{host, top.CoresOf(allowed)}, nil
}

// makePlan deals the cores of this machine out to its ranks of the programs.
func makePlan(m machine, o *cli.Options) *plan {
	p := &plan{host: m.host, node: o.Node}
	for i, program := range o.Programs {
		n := program.Ranks
		if n == 0 {
			n = len(m.cores)
		}
		for range n {
			p.ranks = append(p.ranks, placement{program: i})
		}
	}
	p.blocks = blocks{size: len(p.ranks), nodes: max(o.Nodes, 1)}
	first, n := p.blocks.of(p.node)
	shares := share(m.cores, n, o.BindTo)
	all := slices.Concat(m.cores...)
	for i := range n {
		r := &p.ranks[first+i]
		if r.bound = shares != nil; r.bound {
			r.pus = shares[i]
		} else {
			r.pus = all
		}
	}
	if p.crowded = n > len(all); p.crowded && o.BindTo != "none" {
		p.note = fmt.Sprintf("more ranks than cores (%d on %d), so none is bound to a core", n, len(all))
	}
	return p
}

// share returns the PUs of each of n ranks: equally many cores each, next to each other. With more ranks than cores
// the hardware threads are dealt out instead. It returns nil if ranks are not to be bound: one rank alone, which
// has everything, and more ranks than there are hardware threads.
func share(cores [][]int, n int, bindTo string) [][]int {
	if n > len(cores) {
		var threads [][]int
		for _, pu := range slices.Concat(cores...) {
			threads = append(threads, []int{pu})
		}
		cores = threads
	}
	if n > len(cores) || bindTo == "none" || n == 1 && bindTo == "" {
		return nil
	}
	each := len(cores) / n
	if bindTo == "core" {
		each = 1
	}
	var shares [][]int
	for i := range n {
		first := i * len(cores) / n // what does not divide is left over between the ranks, not all at the end
		shares = append(shares, slices.Sorted(slices.Values(slices.Concat(cores[first:first+each]...))))
	}
	return shares
}
