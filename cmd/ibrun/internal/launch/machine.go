package launch

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/cgroup"
	"github.com/ibrun/ibrun/internal/transports"
)

// nodeNames returns the names of the nodes as far as this node knows them before the nodes have joined.
func nodeNames(here string, set *placeSettings) []string {
	if set.assignment != nil {
		return set.assignment.Names(here)
	}
	list := make([]string, max(set.nodes, 1))
	for i := range list {
		list[i] = fmt.Sprintf("node-%d", i)
	}
	list[set.node] = here
	return list
}

// nodeName returns the name of this node, for which the user may have given one.
func nodeName(given string) (string, error) {
	host, err := os.Hostname()
	if err != nil && given == "" {
		return "", fmt.Errorf("find the name of this machine: %w", err)
	}
	return cmp.Or(given, host), nil
}

// readMachine reads the topology and CPU affinity of this machine. It reads devices only if they matter, which takes a few
// milliseconds. If the topology cannot be read, every PU counts as a core.
func readMachine(set *placeSettings, s console.Streams) (m placement.Machine, err error) {
	if m.Name, err = nodeName(set.name); err != nil {
		return m, err
	}
	if m.Allowed, err = hw.Affinity(); err != nil {
		return m, err
	}
	m.Quota = cgroup.CPUQuota()
	if set.policy.NeedsFullTopology() || set.policy.Report || strings.Contains(set.transports, transports.RDMA.String()) ||
		hasRDMA() {
		if m.Top, err = hw.Local(); err == nil {
			if set.policy.Report {
				warnTopology(s, m.Top.Problems)
			}
			return m, nil
		}
		s.Warn("ranks are placed without regard to devices", console.Attrs{Error: err.Error()})
	}
	if m.Top, err = hw.Read(os.DirFS("/"), hw.OnlyPUs); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.Warn("the arrangement of this machine's cores cannot be read", console.Attrs{Error: err.Error()})
		}
		m.Top = new(hw.Topology)
	}
	warnTopology(s, m.Top.Problems)
	return m, nil
}

// warnTopology warns that ranks may be placed badly because the topology is inconsistent.
func warnTopology(s console.Streams, problems []string) {
	if len(problems) > 0 {
		s.Warn("the topology of this machine may be wrong", console.Attrs{Error: problems[0], Text: fmt.Sprintf("the topology of "+
			"this machine may be wrong; ibrun topo shows the problems (%d in all): %s", len(problems), problems[0])})
	}
}

// hasRDMA reports whether the machine has RDMA devices.
func hasRDMA() bool {
	devices, err := os.ReadDir("/sys/class/infiniband")
	return err == nil && len(devices) > 0
}
