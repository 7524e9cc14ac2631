package launch

import (
	"github.com/ibrun/ibrun/cmd/ibrun/internal/allocation"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/internal/pmi"
)

// findHosts finds the hosts of a job, and assigns ranks to them: it returns the job as the first of
// them runs it. The allocation is nil if the job runs on this host only, and for a node that the
// user has started himself; then the job is j. The rank file of the policy has been read.
func findHosts(j *job, env []string) (*job, *allocation.Allocation, error) {
	host, err := nodeName(j.place.name)
	if err != nil {
		return nil, nil, err
	}
	options := j.hosts
	options.Terminal = pmi.HasTerminal()
	a, err := allocation.Find(options, cli.Lookup(env), host)
	if a == nil || err != nil {
		return j, nil, usageError(err)
	}
	var ranks []int
	for _, p := range j.programs {
		ranks = append(ranks, p.Ranks)
	}
	s, notes, err := a.Assign(ranks, &j.place.policy)
	if s == nil || err != nil {
		return j, nil, usageError(err)
	}
	if s.Nodes() > 1 && j.discovery != "" && discoveryFile(j.discovery, "a") == discoveryFile(j.discovery, "b") {
		return nil, nil, exitcode.Errorf(exitcode.UsageError, "--metrics-sd %s names one file for all nodes, and each removes "+
			"its own at the end: write %%h for the host into its name", j.discovery)
	}
	a.Notes = append(a.Notes, notes...)
	first, err := j.assigned(s, 0)
	return first, a, err
}

func usageError(err error) error {
	if err == nil {
		return nil
	}
	return exitcode.Errorf(exitcode.UsageError, "%w", err)
}

// mapToNodes returns the node of each rank.
func mapToNodes(names []string, ranks int, set *placeSettings) ([]int, error) {
	if set.assignment != nil {
		return set.assignment.NodeOf(), nil
	}
	return set.policy.MapToNodes(names, nil, ranks)
}
