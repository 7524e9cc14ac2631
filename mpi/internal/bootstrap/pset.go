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

// locality describes where processes of one node run. Under ibrun the first process of each node publishes one for
// all processes of the node, from data of the launcher. Under another launcher each process publishes its own.
type locality struct {
	Node  string // name of the node
	Ranks []int
	Homes []ranklink.Locality // of Ranks
}

var errLocality = errors.New("another process published an invalid locality")

// parseLocality decodes the locality of processes of a job with size processes.
func parseLocality(b []byte, size int) (c locality, err error) {
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("%w: %w", errLocality, err)
	}
	if c.Node == "" || len(c.Node) > maxNodeName || len(c.Ranks) == 0 || len(c.Homes) != len(c.Ranks) {
		return c, errLocality
	}
	for _, r := range c.Ranks {
		if r < 0 || r >= size {
			return c, errLocality
		}
	}
	return c, nil
}

// maxNodeName limits the name of a node, so that the names of its sets have at most the length that MPI allows.
const maxNodeName = 512

// localityKey is the key under which processes put a locality.
const localityKey = "ibrun-card"

// ownLocality returns the locality of this process alone, from its current affinity.
func ownLocality(rank int) locality {
	// Where the affinity is unknown there are sets for nodes only.
	pus, _ := hw.Affinity()
	top, err := hw.Local()
	if err != nil {
		top = new(hw.Topology)
	}
	h := ranklink.Locality{}
	h.NUMA, h.Rails = top.LocalityOf(pus)
	return locality{HostName(), []int{rank}, []ranklink.Locality{h}}
}

// publishLocality stores a locality in the key-value space. The next barrier makes it visible.
func publishLocality(client launcher, c locality) error {
	b, err := json.Marshal(c)
	if err == nil {
		err = client.Put(localityKey, b)
	}
	if err != nil {
		return fmt.Errorf("publish the locality of this process: %w", err)
	}
	return nil
}

// localities returns those that these processes have published.
func (b *kvs) localities(publishers []int) ([]locality, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]locality, len(publishers))
	for i, rank := range publishers {
		blob, err := b.client.Get(rank, localityKey)
		if err == nil {
			list[i], err = parseLocality(blob, b.client.Size())
		}
		if err != nil {
			return nil, fmt.Errorf("get the locality of process %d: %w", rank, err)
		}
	}
	return list, nil
}

// numa returns the NUMA node of one of the processes; -1: unknown, or there are several.
func (c *locality) numa(rank int) int { return c.Homes[slices.Index(c.Ranks, rank)].NUMA }

// localityOf returns the locality of the processes of a node from ibrun's hello, or without ibrun that of this process.
func localityOf(hello *ranklink.RankInfo, rank int) locality {
	if hello != nil {
		return helloLocality(hello)
	}
	return ownLocality(rank)
}

// helloLocality returns the locality of the processes of a node from ibrun's hello.
func helloLocality(h *ranklink.RankInfo) locality {
	c := locality{h.NodeName, h.NodeRanks, h.Localities}
	for len(c.Homes) < len(c.Ranks) { // an older ibrun does not send homes
		c.Homes = append(c.Homes, ranklink.Locality{NUMA: -1})
	}
	return c
}

// psets returns all process sets of the job except those that every job has.
func (b *kvs) psets() ([]Pset, error) {
	hello := b.hello
	if hello != nil && len(hello.NodeRanks) == hello.Size {
		return listPsets(make([]int, hello.Size), []locality{helloLocality(hello)}, hello.Psets), nil
	}
	nodes, err := b.nodes()
	if err != nil {
		return nil, fmt.Errorf("get the nodes of the processes from the launcher: %w", err)
	}
	var publishers []int
	seen := map[int]bool{}
	for rank, node := range nodes {
		if hello == nil || !seen[node] {
			publishers = append(publishers, rank)
		}
		seen[node] = true
	}
	cards, err := b.localities(publishers)
	if err != nil {
		return nil, err
	}
	var users []ranklink.Pset
	if hello != nil {
		users = hello.Psets
	}
	return listPsets(nodes, cards, users), nil
}

// listPsets returns the process sets: those of nodes in the order of the nodes, of NUMA nodes, of rails, and those
// that the user has defined. nodes has the number of each process's node. Different nodes may have the same name.
func listPsets(nodes []int, cards []locality, users []ranklink.Pset) []Pset {
	type place struct {
		node, numa int // -1: the node as a whole
		name       string
	}
	places, rails := map[place][]int{}, map[int][]int{}
	for _, c := range cards {
		for i, rank := range c.Ranks {
			node, home := nodes[rank], c.Homes[i]
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
