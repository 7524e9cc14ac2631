package bootstrap

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/auto"
	"github.com/ibrun/ibrun/hw"
)

// verbose tells whether ibrun was asked to say what is done. It has checked what the variable says.
func verbose() bool {
	on, err := strconv.ParseBool(os.Getenv("IBRUN_VERBOSE"))
	return on && err == nil
}

// directory is where the addresses of the processes are looked up, and their nodes.
type directory interface {
	address(peer int) []byte
	nodes() ([]int, error)
}

// reportTransports reports which transports a process takes to the others of its node, and to the first process of each other
// node. A pair of processes may still come to another choice, where the devices of a node's processes differ.
func reportTransports(n auto.Node, self int, d fabric.Domain, dir directory) error {
	c, ok := d.(auto.Chooser)
	if !ok {
		if len(n.Local) > 1 {
			n.Report(fmt.Sprintf("node %d: shm among its %d ranks", self, len(n.Local)))
		}
		return nil
	}
	nodes, err := dir.nodes()
	if err != nil {
		return fmt.Errorf("ask the launcher for the nodes of the processes: %w", err)
	}
	var parts []string           // of the report
	across := map[string][]int{} // nodes, by transport
	seen := map[int]bool{}
	for peer, at := range nodes {
		if peer == n.Local[0] || seen[at] {
			continue
		}
		seen[at] = true
		name, err := c.Choice(peer, dir.address(peer))
		if err != nil {
			return err
		}
		if slices.Contains(n.Local, peer) {
			parts = []string{fmt.Sprintf("%s among its %d ranks", name, len(n.Local))}
			continue
		}
		across[name] = append(across[name], at)
	}
	for _, name := range slices.Sorted(maps.Keys(across)) {
		to := "nodes"
		if len(across[name]) == 1 {
			to = "node"
		}
		parts = append(parts, fmt.Sprintf("%s to %s %s", name, to, hw.FormatList(across[name])))
	}
	n.Report(fmt.Sprintf("node %d: %s", self, strings.Join(parts, "; ")))
	return nil
}
