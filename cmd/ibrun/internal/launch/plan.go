package launch

import (
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
	ranks   []placement
	note    string // one line for the user, or empty
	crowded bool   // there are more ranks than processors
}

// placement is one rank's place.
type placement struct {
	program int
	pus     []int // it may run there
	bound   bool  // and is bound to them, which all allowed ones need not be
}

// thisMachine reads topology and affinity. A machine that does not tell its topology has as many cores as PUs.
func thisMachine() (machine, error) {
	host, err := os.Hostname()
	if err != nil {
		return machine{}, fmt.Errorf("find the name of this machine: %w", err)
	}
	allowed, err := hw.Affinity()
	if err != nil {
		return machine{}, err
	}
	top, err := hw.Read(os.DirFS("/sys"))
	if err != nil {
		top = new(hw.Topology)
	}
	return machine{host, top.Cores(allowed)}, nil
}

// makePlan deals the cores of a machine out to the ranks of the programs.
func makePlan(m machine, o *cli.Options) *plan {
	p := &plan{host: m.host}
	for i, program := range o.Programs {
		n := program.Ranks
		if n == 0 {
			n = len(m.cores)
		}
		for range n {
			p.ranks = append(p.ranks, placement{program: i})
		}
	}
	shares := share(m.cores, len(p.ranks), o.BindTo)
	all := slices.Concat(m.cores...)
	for i := range p.ranks {
		r := &p.ranks[i]
		if r.bound = shares != nil; r.bound {
			r.pus = shares[i]
		} else {
			r.pus = all
		}
	}
	n := len(p.ranks)
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
