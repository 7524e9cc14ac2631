package allocation

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
)

// Assignment maps the ranks to nodes. The process that has found the allocation decides it, and sends it to all
// nodes.
type Assignment struct {
	// Hosts are those that run ranks, in the order of their nodes.
	Hosts []Host
	// Here means that Hosts[0] is node 0. Otherwise node 0 runs no ranks, and Hosts[k] is node k+1.
	Here bool
	// Ranks is how many ranks run each program.
	Ranks []int
	// Blocks are the nodes of consecutive ranks, beginning with rank 0.
	Blocks []Block
	// Packed means that other jobs may use the slots of the hosts that this one does not.
	Packed bool
}

// Block is consecutive ranks on one node.
type Block struct{ Node, Ranks int }

// Assign assigns ranks to hosts. ranks is how many run each program; 0 means that the user has not said it, which is possible
// if there is one program. The result is nil if the job runs on this host only and its cores decide how many ranks there are.
// Notes are what the user should know.
func (a *Allocation) Assign(ranks []int, p *placement.Policy) (result *Assignment, notes []string, err error) {
	total := 0
	result = &Assignment{Packed: a.Packed}
	for _, n := range ranks {
		if n == 0 {
			if n, err = a.defaultRanks(p); err != nil {
				return nil, nil, err
			}
		}
		if n == 0 {
			return nil, nil, nil
		}
		result.Ranks, total = append(result.Ranks, n), total+n
	}
	if total > placement.MaxRanks {
		return nil, nil, fmt.Errorf("a job has at most %d ranks, not %d", placement.MaxRanks, total)
	}
	names, slots := make([]string, len(a.Hosts)), make([]int, len(a.Hosts))
	for i, h := range a.Hosts {
		names[i], slots[i] = h.Name, h.Slots
	}
	if room := a.Slots(); p.File == nil && room > 0 && total > room {
		if err := a.checkRoom(total, room, p); err != nil {
			return nil, nil, err
		}
		notes = append(notes, fmt.Sprintf("%d ranks run on the %s of %s, so several share a slot", total, slotCount(room),
			a.Source))
	}
	where, err := p.MapToNodes(names, slots, total)
	if err != nil {
		return nil, nil, err
	}
	return result, notes, a.useHosts(result, where)
}

// defaultRanks returns the number of ranks of a job whose user has not said it, or 0 if the cores of this host decide.
func (a *Allocation) defaultRanks(p *placement.Policy) (int, error) {
	switch {
	case p.File != nil:
		return len(p.File.Lines), nil
	case p.PerObject > 0 && a.onlyHere():
		return 0, nil
	case p.PerObject > 0:
		return 0, fmt.Errorf("how many ranks ppr:%d:%s means depends on each host: say -n N too", p.PerObject,
			p.Map)
	case a.Tasks > 0:
		return a.Tasks, nil
	case a.Slots() > 0 || a.onlyHere():
		return a.Slots(), nil
	}
	for _, h := range a.Hosts {
		if h.Slots == 0 {
			return 0, fmt.Errorf("%s does not say how many ranks host %s runs: write -n N (on all hosts together) or "+
				"--ppn N (on each)", a.Source, h.Name)
		}
	}
	return 0, nil
}

// slotCount returns a number of slots in words.
func slotCount(n int) string {
	if n == 1 {
		return "1 slot"
	}
	return fmt.Sprintf("%d slots", n)
}

// checkRoom returns an error if there may not be more ranks than slots.
func (a *Allocation) checkRoom(ranks, slots int, p *placement.Policy) error {
	switch {
	case a.Packed:
		return fmt.Errorf("%d ranks need more than the %s of %s that --offset %d leaves, and the others "+
			"belong to other jobs", ranks, slotCount(slots), a.Source, p.Offset)
	case p.PerNode > 0:
		return fmt.Errorf("%d ranks requested, but --ppn %d on %d hosts allows only %d", ranks, p.PerNode,
			len(a.Hosts), slots)
	case p.Strict:
		return fmt.Errorf("%d ranks need more than the %s of %s", ranks, slotCount(slots), a.Source)
	}
	return nil
}

// useHosts sets the hosts that have ranks, and the node of each rank. hostOf is the index of the host of each rank.
func (a *Allocation) useHosts(to *Assignment, hostOf []int) error {
	ranksOn := make([]int, len(a.Hosts))
	for _, host := range hostOf {
		ranksOn[host]++
	}
	nodeOf := make([]int, len(a.Hosts))
	to.Here = a.Here && ranksOn[0] > 0
	for i, h := range a.Hosts {
		if h.MaxSlots > 0 && ranksOn[i] > h.MaxSlots {
			return fmt.Errorf("%d ranks on host %s are more than its max_slots=%d", ranksOn[i], h.Name,
				h.MaxSlots)
		}
		if ranksOn[i] > 0 {
			nodeOf[i] = to.FirstNode() + len(to.Hosts)
			to.Hosts = append(to.Hosts, h)
		}
	}
	for _, host := range hostOf {
		if last := len(to.Blocks) - 1; last >= 0 && to.Blocks[last].Node == nodeOf[host] {
			to.Blocks[last].Ranks++
		} else {
			to.Blocks = append(to.Blocks, Block{nodeOf[host], 1})
		}
	}
	return nil
}

// FirstNode returns the number of the first node with ranks.
func (s *Assignment) FirstNode() int {
	if s.Here {
		return 0
	}
	return 1
}

// Nodes returns the number of nodes, with node 0.
func (s *Assignment) Nodes() int { return s.FirstNode() + len(s.Hosts) }

// Host returns the host of a node, or nil for a node 0 that runs no ranks.
func (s *Assignment) Host(node int) *Host {
	if i := node - s.FirstNode(); i >= 0 {
		return &s.Hosts[i]
	}
	return nil
}

// Size returns the number of ranks.
func (s *Assignment) Size() (ranks int) {
	for _, n := range s.Ranks {
		ranks += n
	}
	return ranks
}

// Names returns the names of all nodes. Node 0 has the name that it calls itself.
func (s *Assignment) Names(node0 string) []string {
	names := []string{node0}
	for node := 1; node < s.Nodes(); node++ {
		names = append(names, s.Host(node).Name)
	}
	return names
}

// NodeOf returns the node of each rank.
func (s *Assignment) NodeOf() (nodes []int) {
	for _, b := range s.Blocks {
		for range b.Ranks {
			nodes = append(nodes, b.Node)
		}
	}
	return nodes
}

// errAssignment means that an assignment from another process contradicts itself.
var errAssignment = errors.New("invalid assignment of ranks to nodes")

// Check returns an error if an assignment that another process has sent contradicts itself.
func (s *Assignment) Check() error {
	if len(s.Hosts) == 0 || len(s.Hosts) > maxHosts {
		return fmt.Errorf("%w: %d hosts", errAssignment, len(s.Hosts))
	}
	programs, ranks := 0, 0
	for _, n := range s.Ranks {
		if n < 1 || n > placement.MaxRanks {
			return fmt.Errorf("%w: a program with %d ranks", errAssignment, n)
		}
		programs += n
	}
	used := make([]bool, s.Nodes())
	for _, b := range s.Blocks {
		if b.Ranks < 1 || b.Ranks > placement.MaxRanks || b.Node < s.FirstNode() || b.Node >= s.Nodes() {
			return fmt.Errorf("%w: %d ranks on node %d of %d", errAssignment, b.Ranks, b.Node, s.Nodes())
		}
		used[b.Node] = true
		if ranks += b.Ranks; ranks > programs {
			break
		}
	}
	if ranks != programs || ranks > placement.MaxRanks {
		return fmt.Errorf("%w: %d ranks of programs, but %d or more on nodes", errAssignment, programs, ranks)
	}
	for i, h := range s.Hosts {
		if !used[s.FirstNode()+i] {
			return fmt.Errorf("%w: host %q runs no ranks", errAssignment, h.Name)
		}
		if h.Skip < 0 || h.Skip > maxSlots || h.Slots < 0 || h.Slots > maxSlots {
			return fmt.Errorf("%w: host %q has %d slots after %d", errAssignment, h.Name, h.Slots, h.Skip)
		}
	}
	return nil
}
