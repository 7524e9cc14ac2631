package placement

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/hw"
)

// Machine is one node of a job.
type Machine struct {
	Name    string
	Top     *hw.Topology
	Allowed []int // the usable PUs; nil: Top.Allowed
	// Quota is how many processors may be used on average, because of a limit of control groups. 0: no limit.
	Quota float64
}

// Rank is the placement of one rank.
type Rank struct {
	Rank int // in the job
	Node int // index of its machine

	// PUs are the PUs where it may run, ascending. Bound reports that the rank is bound to them; a rank that is not bound may
	// use all PUs that the machine allows.
	PUs   []int
	Bound bool
	// Memory are the NUMA nodes to allocate memory from, those of PUs. Nil: any node, because the rank is not bound or the
	// nodes are unknown.
	Memory []int
	// NIC and GPU are the devices near it. An empty name means that there is no such device.
	NIC, GPU hw.Choice
}

// Plan is a job's placement.
type Plan struct {
	Machines []Machine
	Ranks    []Rank   // by number
	Notes    []string // warnings for the user, one sentence each
}

// The kinds of placement errors.
var (
	// ErrNoSlots reports that there are more ranks than the policy has slots for.
	ErrNoSlots = errors.New("not enough slots")
	// ErrNoObject reports that a machine has none of the objects to map or bind ranks to, or that the affinity mask allows
	// none of them.
	ErrNoObject = errors.New("no object to place ranks on")
)

// NewPlan places the given number of ranks (at least 1) on the machines. Equal input gives an equal plan.
func NewPlan(machines []Machine, ranks int, p Policy) (*Plan, error) {
	names := make([]string, len(machines))
	for i, m := range machines {
		names[i] = m.Name
	}
	nodes, err := p.MapToNodes(names, nil, ranks)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Machines: machines, Ranks: make([]Rank, ranks)}
	for i, m := range machines {
		var mine []int
		for rank, node := range nodes {
			if node == i {
				mine = append(mine, rank)
			}
		}
		placed, notes, err := p.BindRanks(m, mine)
		if err != nil {
			return nil, fmt.Errorf("place ranks on %s: %w", m.Name, err)
		}
		for j, rank := range mine {
			placed[j].Node = i
			plan.Ranks[rank] = placed[j]
		}
		plan.addNotes(append(notes, p.CrossSocketWarnings(placed)...))
	}
	return plan, nil
}

// addNotes adds the notes that the plan does not have yet: equal nodes have equal notes.
func (p *Plan) addNotes(notes []string) {
	for _, n := range notes {
		if !slices.Contains(p.Notes, n) {
			p.Notes = append(p.Notes, n)
		}
	}
}
