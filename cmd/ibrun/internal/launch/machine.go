package launch

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/transports"
)

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
func readMachine(o *cli.Options, s console.Streams) (m placement.Machine, err error) {
	host, err := os.Hostname()
	if err != nil && o.NodeName == "" {
		return m, fmt.Errorf("find the name of this machine: %w", err)
	}
	m.Name = cmp.Or(o.NodeName, host)
	if m.Allowed, err = hw.Affinity(); err != nil {
		return m, err
	}
	if o.Nodes > 1 || o.Policy.Needs() || o.Policy.Report || strings.Contains(o.Transport, transports.RDMA.String()) ||
		hasRDMA() {
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
func warnTopology(s console.Streams, problems []string) {
	if len(problems) > 0 {
		s.Say("this machine may not be as it tells, ibrun topo shows more (%d in all): %s", len(problems), problems[0])
	}
}

// hasRDMA tells whether the machine has devices that ranks may be near to.
func hasRDMA() bool {
	devices, err := os.ReadDir("/sys/class/infiniband")
	return err == nil && len(devices) > 0
}
