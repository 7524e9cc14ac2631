package launch

import (
	"cmp"
	"fmt"
	"os"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/allocation"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/internal/pmi"
)

// findHosts finds the hosts of the job, and assigns ranks to them with [useAssignment]. It returns nil if the job runs on this
// host only, and for a node that the user has started himself. The rank file of the policy has been read.
func findHosts(o *cli.Options, env []string) (*allocation.Allocation, error) {
	host, err := os.Hostname()
	if err != nil && o.NodeName == "" {
		return nil, fmt.Errorf("find the name of this machine: %w", err)
	}
	a, err := allocation.Find(allocation.Options{
		Hosts: o.Hosts, Files: o.HostFiles, PerNode: o.Policy.PerNode, Offset: o.Policy.Offset, Packed: o.Policy.Packed,
		Manual: o.Nodes > 0, Terminal: pmi.HasTerminal(), Command: o.Programs[0].Args,
	}, cli.Lookup(env), cmp.Or(o.NodeName, host))
	if a == nil || err != nil {
		return nil, usageError(err)
	}
	var ranks []int
	for _, p := range o.Programs {
		ranks = append(ranks, p.Ranks)
	}
	s, notes, err := a.Assign(ranks, &o.Policy)
	if s == nil || err != nil {
		return nil, usageError(err)
	}
	if s.Nodes() > 1 && o.MetricsSD != "" && o.DiscoveryFile("a") == o.DiscoveryFile("b") {
		return nil, exitcode.Errorf(exitcode.UsageError, "--metrics-sd %s names one file for all nodes, and each removes its own at "+
			"the end: write %%h for the host into its name", o.MetricsSD)
	}
	a.Notes = append(a.Notes, notes...)
	return a, useAssignment(o, s, 0)
}

func usageError(err error) error {
	if err == nil {
		return nil
	}
	return exitcode.Errorf(exitcode.UsageError, "%w", err)
}

// useAssignment makes a command line that of a node of the job whose ranks are assigned so. It is called once for each command
// line.
func useAssignment(o *cli.Options, s *allocation.Assignment, node int) error {
	if len(s.Ranks) != len(o.Programs) || node < 0 || node >= s.Nodes() {
		return fmt.Errorf("node %d of %d, with %d programs instead of %d", node, s.Nodes(), len(s.Ranks), len(o.Programs))
	}
	for i, n := range s.Ranks {
		o.Programs[i].Ranks = n
	}
	o.Assignment, o.Node, o.Nodes = s, node, s.Nodes()
	if o.Policy.Packed = false; s.Host(node) != nil {
		h := s.Host(node)
		o.Policy.Offset, o.Policy.Packed = h.Skip, s.Packed
		if s.Packed && h.Slots > 0 {
			o.Policy.NodeSlots = h.Skip + h.Slots
		}
	}
	return nil
}

// mapToNodes returns the node of each rank.
func mapToNodes(names []string, ranks int, o *cli.Options) ([]int, error) {
	if o.Assignment != nil {
		return o.Assignment.NodeOf(), nil
	}
	return o.Policy.MapToNodes(names, nil, ranks)
}
