package launch

import (
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/internal/transports"
)

// plan says where each rank runs.
type plan struct {
	coordinator.Layout                // which rank is on which node
	node               int            // this one
	names              []string       // of the nodes
	programs           []int          // of each rank, as an index
	placement          placement.Plan // of the ranks of this node, which no other node decides
	oversubscribed     []bool         // which of them share processors
	psets              []ranklink.Pset
}

// makePlan places the ranks of the programs that are this node's, and says where the others are.
func makePlan(m placement.Machine, names []string, o *cli.Options) (*plan, error) {
	p := &plan{node: o.Node, names: names, placement: placement.Plan{Machines: []placement.Machine{m}}}
	for i, program := range o.Programs {
		n := program.Ranks
		if n == 0 {
			var err error
			if n, err = o.Policy.Slots(m); err != nil {
				return nil, exitcode.Errorf(exitcode.UsageError, "%w", err)
			}
		}
		for range n {
			p.programs = append(p.programs, i)
		}
	}
	where, err := o.Policy.Nodes(names, len(p.programs))
	if err != nil {
		return nil, exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	p.Layout = coordinator.NewLayout(where, len(names))
	for node, ranks := range p.RanksOn {
		if len(ranks) == 0 {
			return nil, exitcode.Errorf(exitcode.UsageError, "no rank is left for node %d (%s) of %d: start fewer nodes", node,
				names[node], len(names))
		}
	}
	if p.placement.Ranks, p.placement.Notes, err = o.Policy.On(m, p.localRanks()); err != nil {
		return nil, exitcode.Errorf(exitcode.UsageError, "place ranks on %s: %w", m.Name, err)
	}
	if len(names) > 1 || o.Policy.Report || o.Policy.Map == placement.Device ||
		strings.Contains(o.Transport, transports.RDMA.String()) {
		p.placement.Notes = append(p.placement.Notes, o.Policy.Crossing(p.placement.Ranks)...)
	}
	p.oversubscribed = placement.Shares(p.placement.Ranks)
	p.psets, err = processSets(o, len(p.programs))
	return p, err
}

// localRanks are the ranks of this node, ascending.
func (p *plan) localRanks() []int { return p.RanksOn[p.node] }

// printNotes says what the user should know of the placement, and all of it if that was asked for.
func (p *plan) printNotes(o *cli.Options, s console.Streams) {
	lines := p.placement.Notes
	if o.Policy.Report {
		lines = strings.Split(strings.TrimSuffix(p.placement.Report(), "\n"), "\n") // which ends with the notes
	}
	for _, line := range lines {
		s.Say("%s", line)
	}
}
