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

// verbose reports whether IBRUN_VERBOSE is set. ibrun has checked its value.
func verbose() bool {
	on, err := strconv.ParseBool(os.Getenv("IBRUN_VERBOSE"))
	return on && err == nil
}

// directory provides the addresses and the nodes of the processes.
type directory interface {
	address(peer int) []byte
	nodes() ([]int, error)
}

// reportTransports reports which transports a process uses to the others of its node, and to the first process of
// each other node. Other pairs of processes may use another transport if their devices differ.
func reportTransports(n auto.Node, report func(string), self int, d fabric.Domain, dir directory) error {
	c, ok := d.(auto.Chooser)
	if !ok {
		if len(n.Local) > 1 {
			report(fmt.Sprintf("node %d: shm among its %d ranks", self, len(n.Local)))
		}
		return nil
	}
	nodes, err := dir.nodes()
	if err != nil {
		return fmt.Errorf("get the nodes of the processes from the launcher: %w", err)
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
	report(fmt.Sprintf("node %d: %s", self, strings.Join(parts, "; ")))
	return nil
}

// oncePerNode returns a function that reports a text about a peer by once, but only one text about the peers of a node. Other
// ranks of this node report the same about that node. If it is not known which node it is, the text is reported by always.
func oncePerNode(nodes func() ([]int, error), always func(text string),
	once func(about, text string)) func(peer int, text string) {
	reported := map[int]bool{}
	return func(peer int, text string) {
		if all, err := nodes(); err == nil && peer < len(all) {
			if reported[all[peer]] {
				return
			}
			reported[all[peer]] = true
			once(fmt.Sprintf("transport to node %d", all[peer]), text)
			return
		}
		always(text)
	}
}
