package pmi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// parcelBytes bounds the keys and values of one parcel. parcelPut is what each counts besides its bytes.
const (
	parcelBytes = 256 << 10
	parcelPut   = 64
)

// errParcel says that a parcel makes no sense.
var errParcel = errors.New("pmi: malformed parcel")

// Parcel is what the servers of a job's nodes and its [Exchange] say to each other: a barrier that all ranks of a node
// have reached, or may leave, with what was put before it; or a published name. Parcels are plain data, to be carried in
// order by whoever connects the nodes.
type Parcel struct {
	// Group is which barrier it is.
	Group string `json:",omitempty"`
	// Puts are keys and values that the receiver does not have yet.
	Puts []Put `json:",omitempty"`
	// More says that only Puts count: a further parcel follows.
	More bool `json:",omitempty"`
	// Name is a question about a name, or its answer. The other fields are empty then.
	Name *Name `json:",omitempty"`
}

// Put is a value that a rank has put.
type Put struct {
	Rank       int
	Key, Value []byte
}

func (p *Put) size() int { return len(p.Key) + len(p.Value) + parcelPut }

// parcels packs puts into parcels for a barrier, the last of which is the one that counts.
func parcels(group string, puts []Put) []Parcel {
	var list []Parcel
	first, bytes := 0, 0
	for i := range puts {
		if bytes += puts[i].size(); bytes > parcelBytes {
			list = append(list, Parcel{Group: group, Puts: puts[first:i:i], More: true})
			first, bytes = i, puts[i].size()
		}
	}
	return append(list, Parcel{Group: group, Puts: puts[first:]})
}

// Exchange joins the servers of several nodes into one job's key-value space. It is a state machine without a
// connection: what a node's server says goes in, and what other servers have to be told comes out. One goroutine at a
// time calls it. A node tells of a barrier once, when all its ranks have reached it, and is answered once, with what
// all nodes have put and it has not heard of; so a barrier costs one parcel each way for each node unless there is much
// to tell.
type Exchange struct {
	nodes []int // by rank
	count int
	names *store
	log   []Put // what some node has not heard of yet
	bytes int   // of log
	heard []int // by node: how much of log it has heard of
	meet  map[string][]bool
	limit int
}

// Delivery is a parcel for some nodes.
type Delivery struct {
	Nodes  []int
	Parcel Parcel
}

// NewExchange makes an exchange for the job of that many ranks whose nodes a PMI_process_mapping tells.
func NewExchange(mapping string, size int) (*Exchange, error) {
	nodes, err := parseMapping(mapping, size)
	if err != nil {
		return nil, err
	}
	count := slices.Max(nodes) + 1
	return &Exchange{nodes: nodes, count: count, names: newStore(), heard: make([]int, count),
		meet: make(map[string][]bool), limit: size * share}, nil
}

// Take takes in what the server of a node says, and returns what others have to be told, in order. After an error the
// job cannot go on.
func (x *Exchange) Take(node int, p *Parcel) ([]Delivery, error) {
	if node < 0 || node >= x.count {
		return nil, fmt.Errorf("%w: from node %d of %d", errParcel, node, x.count)
	}
	if p.Name != nil {
		if !x.runsOn(p.Name.Rank, node) {
			return nil, fmt.Errorf("%w: rank %d on node %d asks for a name", errParcel, p.Name.Rank, node)
		}
		answer := *p.Name
		answer.settle(x.names)
		return []Delivery{{[]int{node}, Parcel{Name: &answer}}}, nil
	}
	for i := range p.Puts {
		put := &p.Puts[i]
		if !x.runsOn(put.Rank, node) || len(put.Key) >= keyMax || len(put.Value) >= valueMax {
			return nil, fmt.Errorf("%w: rank %d on node %d has put %.70q", errParcel, put.Rank, node, put.Key)
		}
		x.bytes += put.size()
	}
	if x.bytes > x.limit {
		return nil, fmt.Errorf("pmi: %d bytes were put that not all nodes have heard of", x.bytes)
	}
	x.log = append(x.log, p.Puts...)
	if p.More {
		return nil, nil
	}
	return x.arrive(node, p.Group)
}

func (x *Exchange) runsOn(rank, node int) bool {
	return rank >= 0 && rank < len(x.nodes) && x.nodes[rank] == node
}

// arrive takes note that a node has reached a barrier. The last one to come releases all.
func (x *Exchange) arrive(node int, group string) ([]Delivery, error) {
	c, err := parseCircle(group, x.nodes, -1)
	if err != nil || c.key != group {
		return nil, fmt.Errorf("%w: barrier %.70q", errParcel, group)
	}
	here := x.meet[group]
	if here == nil {
		here = make([]bool, x.count)
	}
	belongs := c.on(x.nodes, x.count)
	if here[node] || !belongs[node] {
		return nil, fmt.Errorf("%w: node %d is at barrier %.70q for the second time or for nothing", errParcel, node, group)
	}
	here[node] = true
	x.meet[group] = here
	if !slices.Equal(here, belongs) {
		return nil, nil
	}
	delete(x.meet, group)
	return x.release(group, belongs), nil
}

// release tells the nodes of a barrier what they have not heard of. Those that lack the same get the same parcels.
func (x *Exchange) release(group string, belongs []bool) (list []Delivery) {
	lacking := map[int][]int{}
	for node, is := range belongs {
		if is {
			lacking[x.heard[node]] = append(lacking[x.heard[node]], node)
			x.heard[node] = len(x.log)
		}
	}
	for from, nodes := range lacking {
		for _, p := range parcels(group, slices.Clip(x.log[from:])) {
			list = append(list, Delivery{nodes, p})
		}
	}
	if done := slices.Min(x.heard); done > 0 {
		for i := range x.log[:done] {
			x.bytes -= x.log[i].size()
		}
		x.log = slices.Clone(x.log[done:]) // the parcels keep the old one
		for node := range x.heard {
			x.heard[node] -= done
		}
	}
	return list
}

// Name is a question about a published name, and its answer.
type Name struct {
	// Rank is who asks.
	Rank int
	// Cmd is publish_name, unpublish_name or lookup_name.
	Cmd string
	// Service is the name, and Port what is or was published under it.
	Service, Port []byte
	// Why says in an answer what is wrong; empty if nothing is.
	Why string `json:",omitempty"`
}

// settle answers a question from the names that there are.
func (n *Name) settle(names *store) {
	service := string(n.Service)
	switch {
	case service == "":
		n.Why = "no service named"
	case n.Cmd == "publish_name":
		if len(n.Service)+len(n.Port) >= valueMax || !names.put(n.Rank, service, string(n.Port), false) {
			n.Why = "name is taken or there is no room for it"
		}
	case n.Cmd == "unpublish_name":
		if !names.remove(service) {
			n.Why = "name not found"
		}
	default:
		port, found := names.get(service)
		if !found {
			n.Why = "name not found"
		}
		n.Port = []byte(port)
	}
}

// answer is what a rank is told. Slurm's clients look at info, MPICH's at rc.
func (n *Name) answer(c *session) error {
	cmd := strings.TrimSuffix(n.Cmd, "_name") + "_result"
	if n.Why != "" {
		return c.refuse(cmd, n.Why, "info", "fail")
	}
	ok := []string{"info", "ok"}
	if n.Cmd == "lookup_name" {
		ok = append(ok, "port", string(n.Port))
	}
	return c.answer(cmd, ok...)
}
