package launch

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/internal/transports"
)

// plan says where each rank runs.
type plan struct {
	Layout                        // which rank is on which node
	node           int            // this one
	names          []string       // of the nodes
	programs       []int          // of each rank, as an index
	placement      placement.Plan // of the ranks of this node, which no other node decides
	oversubscribed []bool         // which of them share processors
	psets          []ranklink.Pset
}

// nodeNames are those of the nodes as far as this one knows before they have met.
func nodeNames(here string, o *cli.Options) []string {
	list := make([]string, max(o.Nodes, 1))
	for i := range list {
		list[i] = fmt.Sprintf("node-%d", i)
	}
	list[o.Node] = here
	return list
}

// readMachine reads topology and affinity, devices only where they matter: that takes a few milliseconds. A machine that
// does not tell its topology has as many cores as PUs.
func readMachine(o *cli.Options, s Streams) (m placement.Machine, err error) {
	host, err := os.Hostname()
	if err != nil && o.NodeName == "" {
		return m, fmt.Errorf("find the name of this machine: %w", err)
	}
	m.Name = cmp.Or(o.NodeName, host)
	if m.Allowed, err = hw.Affinity(); err != nil {
		return m, err
	}
	if o.Nodes > 1 || o.Policy.Needs() || o.Policy.Report || strings.Contains(o.Transport, transports.RDMA.String()) || hasRDMA() {
		if m.Top, err = hw.Local(); err == nil {
			if o.Policy.Report {
				warnTopology(s, m.Top.Problems)
			}
			return m, nil
		}
		s.Say("devices do not count for where ranks run: %v", err)
	}
	if m.Top, err = hw.Read(os.DirFS("/"), hw.OnlyPUs); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.Say("this machine does not tell how its cores are arranged: %v", err)
		}
		m.Top = new(hw.Topology)
	}
	warnTopology(s, m.Top.Problems)
	return m, nil
}

// warnTopology says that ranks are placed by what may be wrong.
func warnTopology(s Streams, problems []string) {
	if len(problems) > 0 {
		s.Say("this machine may not be as it tells, ibrun topo shows more (%d in all): %s", len(problems), problems[0])
	}
}

// hasRDMA tells whether the machine has devices that ranks may be near to.
func hasRDMA() bool {
	devices, err := os.ReadDir("/sys/class/infiniband")
	return err == nil && len(devices) > 0
}

// makePlan places the ranks of the programs that are this node's, and says where the others are.
func makePlan(m placement.Machine, names []string, o *cli.Options) (*plan, error) {
	p := &plan{node: o.Node, names: names, placement: placement.Plan{Machines: []placement.Machine{m}}}
	for i, program := range o.Programs {
		n := program.Ranks
		if n == 0 {
			var err error
			if n, err = o.Policy.Slots(m); err != nil {
				return nil, Errorf(UsageError, "%w", err)
			}
		}
		for range n {
			p.programs = append(p.programs, i)
		}
	}
	where, err := o.Policy.Nodes(names, len(p.programs))
	if err != nil {
		return nil, Errorf(UsageError, "%w", err)
	}
	p.Layout = NewLayout(where, len(names))
	for node, ranks := range p.RanksOn {
		if len(ranks) == 0 {
			return nil, Errorf(UsageError, "no rank is left for node %d (%s) of %d: start fewer nodes", node, names[node], len(names))
		}
	}
	if p.placement.Ranks, p.placement.Notes, err = o.Policy.On(m, p.localRanks()); err != nil {
		return nil, Errorf(UsageError, "place ranks on %s: %w", m.Name, err)
	}
	if len(names) > 1 || o.Policy.Report || o.Policy.Map == placement.Device || strings.Contains(o.Transport, "rdma") {
		p.placement.Notes = append(p.placement.Notes, o.Policy.Crossing(p.placement.Ranks)...)
	}
	p.oversubscribed = placement.Shares(p.placement.Ranks)
	p.psets, err = processSets(o, len(p.programs))
	return p, err
}

// localRanks are the ranks of this node, ascending.
func (p *plan) localRanks() []int { return p.RanksOn[p.node] }

// printNotes says what the user should know of the placement, and all of it if that was asked for.
func (p *plan) printNotes(o *cli.Options, s Streams) {
	lines := p.placement.Notes
	if o.Policy.Report {
		lines = strings.Split(strings.TrimSuffix(p.placement.Report(), "\n"), "\n") // which ends with the notes
	}
	for _, line := range lines {
		s.Say("%s", line)
	}
}

// rankTask is what the agent has to know of the place of its rank number i.
func (p *plan) rankTask(i int, o *cli.Options) RankTask {
	place, m := p.placement.Ranks[i], p.placement.Machines[0]
	r := RankTask{Rank: place.Rank, Program: p.programs[place.Rank], Crowded: p.oversubscribed[i]}
	pus := m.Allowed
	if place.Bound {
		pus = place.PUs
	}
	r.Home.NUMA, r.Home.Rails = m.Top.Home(pus)
	if place.Bound {
		r.PUs, r.Memory = place.PUs, lessThanAll(place.Memory, m.Top)
	}
	if place.NIC.Name != "" {
		r.Devices = []string{place.NIC.String()}
	}
	if o.Policy.Map == placement.Device {
		r.Env = m.Variables(place)
	}
	return r
}

// lessThanAll is nil if the PUs of the machine are in no other NUMA nodes than these: then there is no memory to prefer.
func lessThanAll(nodes []int, top *hw.Topology) []int {
	all := map[int]bool{}
	for _, pu := range top.PUs {
		all[pu.Node] = true
	}
	if len(nodes) >= len(all) {
		return nil
	}
	return nodes
}
