package launch

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/internal/transports"
)

// plan describes where each rank runs.
type plan struct {
	coordinator.Layout                // which rank is on which node
	node               int            // the number of this node
	names              []string       // the names of all nodes
	programs           []int          // the program of each rank, as an index
	placement          placement.Plan // of the ranks of this node, which other nodes do not determine
	oversubscribed     []bool         // which ranks of this node share processors with others
	psets              []ranklink.Pset
}

// makePlan assigns all ranks to nodes, and places the ranks of this node.
func makePlan(m placement.Machine, names []string, programs []cli.Program, set *placeSettings) (*plan, error) {
	p := &plan{node: set.node, names: names, placement: placement.Plan{Machines: []placement.Machine{m}}}
	quotaNote := ""
	for i, program := range programs {
		n := program.Ranks
		if n == 0 {
			var err error
			if n, quotaNote, err = defaultRanks(m, &set.policy); err != nil {
				return nil, exitcode.Errorf(exitcode.UsageError, "%w", err)
			}
		}
		for range n {
			p.programs = append(p.programs, i)
		}
	}
	where, err := mapToNodes(names, len(p.programs), set)
	if err != nil {
		return nil, exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	p.Layout = coordinator.NewLayout(where, len(names))
	for node, ranks := range p.RanksOn {
		if len(ranks) == 0 && (node > 0 || set.assignment == nil) {
			return nil, exitcode.Errorf(exitcode.UsageError, "node %d (%s) of %d gets no rank: start fewer nodes", node,
				names[node], len(names))
		}
	}
	if p.placement.Ranks, p.placement.Notes, err = set.policy.BindRanks(m, p.localRanks()); err != nil {
		return nil, exitcode.Errorf(exitcode.UsageError, "place ranks on %s: %w", m.Name, err)
	}
	if quotaNote != "" {
		p.placement.Notes = append(p.placement.Notes, quotaNote)
	}
	if len(names) > 1 || set.policy.Report || set.policy.Map == placement.Device ||
		strings.Contains(set.transports, transports.RDMA.String()) {
		p.placement.Notes = append(p.placement.Notes, set.policy.CrossSocketWarnings(p.placement.Ranks)...)
	}
	p.oversubscribed = placement.Oversubscribed(p.placement.Ranks)
	p.psets, err = processSets(set.psets, len(p.programs))
	return p, err
}

// defaultRanks returns the number of ranks of a program without -n, and a note if a CPU quota has reduced it.
func defaultRanks(m placement.Machine, policy *placement.Policy) (n int, note string, err error) {
	if n, err = policy.Slots(m); err != nil {
		return 0, "", err
	}
	quota := m.Quota
	m.Quota = 0
	if all, err := policy.Slots(m); err == nil && all > n {
		note = fmt.Sprintf("%d of %d possible ranks are started, because the control group allows %.3g processors (-n sets the number)",
			n, all, quota)
	}
	return n, note, nil
}

// localRanks returns the ranks of this node, ascending.
func (p *plan) localRanks() []int { return p.RanksOn[p.node] }

// printNotes prints what the user should know about the placement, or all of it
// (--report-bindings).
func (p *plan) printNotes(all bool, s console.Streams) {
	lines := p.placement.Notes
	if all { // it ends with the notes, and is empty on a node without ranks
		lines = strings.FieldsFunc(p.placement.Report(), func(r rune) bool { return r == '\n' })
	}
	for i, line := range lines {
		if i < len(lines)-len(p.placement.Notes) {
			s.Info("a rank was placed", console.Attrs{Text: line})
		} else {
			s.Warn("ranks may be placed badly", console.Attrs{Text: line})
		}
	}
}

// makeCheckedPlan makes a plan, checks it against the limits of this machine, and prints notes for the user.
func makeCheckedPlan(here placement.Machine, names []string, j *job, s console.Streams) (*plan, error) {
	p, err := makePlan(here, names, j.programs, &j.place)
	if err != nil {
		return nil, err
	}
	if err := checkLimits(len(p.localRanks())); err != nil {
		return nil, err
	}
	if err := checkDebuggers(len(p.programs), &j.debug); err != nil {
		return nil, err
	}
	if note := addressSpaceNote(); note != "" {
		s.Warn("programs may crash", console.Attrs{Text: note})
	}
	p.printNotes(j.place.policy.Report, s)
	return p, nil
}

// print writes the table of --dry-run. The words of its heading are one space apart, so that scripts can match them.
func (p *plan) print(w io.Writer, programs []cli.Program) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	mine := p.placement.Ranks
	for rank, node := range p.NodeOf {
		cores := "-" // each node binds its own ranks
		if node == p.node {
			cores, mine = hw.FormatList(mine[0].PUs), mine[1:]
		}
		program := printable.Line(strings.Join(programs[p.programs[rank]].Args, " "))
		fmt.Fprintf(table, "%4d\t%s\t%s\t%s\n", rank, printable.Line(p.names[node]), cores, program)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "rank node cores program\n%s", b.String())
	return err
}
