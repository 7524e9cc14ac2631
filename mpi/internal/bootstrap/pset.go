package bootstrap

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// Pset is a process set: its name, and its processes in ascending order.
type Pset struct {
	Name  string
	Ranks []int
}

// nodeInfo says where processes of one node run. Under ibrun the first process of each node publishes it for all processes of
// the node, from data of the launcher. Under another launcher each process publishes it for itself.
type nodeInfo struct {
	Node       string // name of the node
	Ranks      []int
	Localities []ranklink.Locality // of Ranks
}

var errNodeInfo = errors.New("another process published invalid data about its node")

// parseNodeInfo decodes a nodeInfo of a job with size processes.
func parseNodeInfo(b []byte, size int) (c nodeInfo, err error) {
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("%w: %w", errNodeInfo, err)
	}
	if c.Node == "" || len(c.Node) > maxNodeName || len(c.Ranks) == 0 || len(c.Localities) != len(c.Ranks) {
		return c, errNodeInfo
	}
	for _, r := range c.Ranks {
		if r < 0 || r >= size {
			return c, errNodeInfo
		}
	}
	return c, nil
}

// maxNodeName limits the name of a node, so that the names of its sets have at most the length that MPI allows.
const maxNodeName = 512

// nodeInfoKey is the key under which processes put a nodeInfo.
const nodeInfoKey = "ibrun-node"

// ownNodeInfo returns the nodeInfo of this process alone, from its current affinity.
func ownNodeInfo(rank int) nodeInfo {
	// Where the affinity is unknown there are sets for nodes only.
	pus, _ := hw.Affinity()
	top, err := hw.Local()
	if err != nil {
		top = new(hw.Topology)
	}
	h := ranklink.Locality{}
	h.NUMA, h.Rails = top.LocalityOf(pus)
	return nodeInfo{HostName(), []int{rank}, []ranklink.Locality{h}}
}

// publishNodeInfo stores a nodeInfo in the key-value space. The next barrier makes it visible.
func publishNodeInfo(client launcher, c nodeInfo) error {
	b, err := json.Marshal(c)
	if err == nil {
		err = client.Put(nodeInfoKey, b)
	}
	if err != nil {
		return fmt.Errorf("publish where this process runs: %w", err)
	}
	return nil
}

// nodeInfos returns what these processes have published.
func (b *kvs) nodeInfos(publishers []int) ([]nodeInfo, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]nodeInfo, len(publishers))
	for i, rank := range publishers {
		blob, err := b.client.Get(rank, nodeInfoKey)
		if err == nil {
			list[i], err = parseNodeInfo(blob, b.client.Size())
		}
		if err != nil {
			return nil, fmt.Errorf("get where process %d runs: %w", rank, err)
		}
	}
	return list, nil
}

// numa returns the NUMA node of one of the processes; -1: unknown, or there are several.
func (c *nodeInfo) numa(rank int) int { return c.Localities[slices.Index(c.Ranks, rank)].NUMA }

// nodeInfoOf returns the nodeInfo of the processes of a node from the RankInfo of ibrun, or without ibrun that of this process.
func nodeInfoOf(info *ranklink.RankInfo, rank int) nodeInfo {
	if info != nil {
		return nodeInfoFrom(info)
	}
	return ownNodeInfo(rank)
}

// nodeInfoFrom returns the nodeInfo of the processes of a node from the RankInfo of ibrun.
func nodeInfoFrom(h *ranklink.RankInfo) nodeInfo {
	c := nodeInfo{h.NodeName, h.NodeRanks, h.Localities}
	for len(c.Localities) < len(c.Ranks) { // RankInfo may have no localities
		c.Localities = append(c.Localities, ranklink.Locality{NUMA: -1})
	}
	return c
}

// psets returns all process sets of the job except those that every job has.
func (b *kvs) psets() ([]Pset, error) {
	info := b.info
	if info != nil && len(info.NodeRanks) == info.Size {
		return listPsets(make([]int, info.Size), []nodeInfo{nodeInfoFrom(info)}, info.Psets), nil
	}
	nodes, err := b.nodes()
	if err != nil {
		return nil, fmt.Errorf("get the nodes of the processes from the launcher: %w", err)
	}
	var publishers []int
	seen := map[int]bool{}
	for rank, node := range nodes {
		if info == nil || !seen[node] {
			publishers = append(publishers, rank)
		}
		seen[node] = true
	}
	infos, err := b.nodeInfos(publishers)
	if err != nil {
		return nil, err
	}
	var users []ranklink.Pset
	if info != nil {
		users = info.Psets
	}
	return listPsets(nodes, infos, users), nil
}

// listPsets returns the process sets: those of nodes in the order of the nodes, of NUMA nodes, of rails, and those
// that the user has defined. nodes has the number of each process's node. Different nodes may have the same name.
func listPsets(nodes []int, infos []nodeInfo, users []ranklink.Pset) []Pset {
	type place struct {
		node, numa int // -1: the node as a whole
		name       string
	}
	places, rails := map[place][]int{}, map[int][]int{}
	for _, c := range infos {
		for i, rank := range c.Ranks {
			node, home := nodes[rank], c.Localities[i]
			whole := place{node, -1, "ibrun://node/" + c.Node}
			places[whole] = append(places[whole], rank)
			if home.NUMA >= 0 {
				numa := place{node, home.NUMA, fmt.Sprintf("ibrun://numa/%s/%d", c.Node, home.NUMA)}
				places[numa] = append(places[numa], rank)
			}
			for _, k := range home.Rails {
				rails[k] = append(rails[k], rank)
			}
		}
	}
	var sets []Pset
	order := make([]place, 0, len(places))
	for p := range places {
		order = append(order, p)
	}
	slices.SortFunc(order, func(a, b place) int {
		return cmp.Or(cmp.Compare(min(a.numa, 0), min(b.numa, 0)), cmp.Compare(a.node, b.node), cmp.Compare(a.numa, b.numa),
			cmp.Compare(a.name, b.name))
	})
	for _, p := range order {
		sets = append(sets, newPset(p.name, places[p]))
	}
	numbers := make([]int, 0, len(rails))
	for k := range rails {
		numbers = append(numbers, k)
	}
	slices.Sort(numbers)
	for _, k := range numbers {
		sets = append(sets, newPset(fmt.Sprintf("ibrun://rail/%d", k), rails[k]))
	}
	for _, u := range users {
		var ranks []int
		for _, r := range u.Ranks {
			for n := r[0]; n <= r[1]; n++ {
				ranks = append(ranks, n)
			}
		}
		sets = append(sets, newPset(u.Name, ranks))
	}
	return sets
}

func newPset(name string, ranks []int) Pset {
	slices.Sort(ranks)
	return Pset{name, slices.Compact(ranks)}
}
