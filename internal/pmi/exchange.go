package pmi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxMessagePuts bounds the bytes of the puts in one message. putOverhead is what each put counts besides its key and value.
const (
	maxMessagePuts = 256 << 10
	putOverhead    = 64
)

// errExchange means that a message is malformed.
var errExchange = errors.New("pmi: malformed exchange message")

// ExchangeMessage is a message between the server of a node and the job's [Exchange]. It says that all ranks of a node have
// entered a barrier, or that they may leave it, and has the puts made before it. Or it has a request about a published name.
// Messages are plain data. The code that connects the nodes must deliver them in order.
type ExchangeMessage struct {
	// Group identifies the barrier.
	Group string `json:",omitempty"`
	// Puts are the keys and values that the receiver does not have yet.
	Puts []Put `json:",omitempty"`
	// More means that the barrier follows in a further message; this one has only Puts.
	More bool `json:",omitempty"`
	// Name is a request about a name, or its answer. If it is set, the other fields are empty.
	Name *NameRequest `json:",omitempty"`
}

// Put is a key and a value that a rank has put.
type Put struct {
	Rank       int
	Key, Value []byte
}

func (p *Put) size() int { return len(p.Key) + len(p.Value) + putOverhead }

// barrierMessages distributes puts over messages for a barrier. Only the last message has the barrier; the others have More set.
func barrierMessages(group string, puts []Put) []ExchangeMessage {
	var list []ExchangeMessage
	first, bytes := 0, 0
	for i := range puts {
		if bytes += puts[i].size(); bytes > maxMessagePuts {
			list = append(list, ExchangeMessage{Group: group, Puts: puts[first:i:i], More: true})
			first, bytes = i, puts[i].size()
		}
	}
	return append(list, ExchangeMessage{Group: group, Puts: puts[first:]})
}

// Exchange combines the servers of several nodes into one key-value space of the job. It is a state machine without a
// connection: its input are the messages of the nodes' servers, its output are the messages for them. Only one goroutine at a
// time may call it.
//
// A node sends one message for a barrier, after all its ranks have entered it. It receives one message when the barrier is
// complete, with the puts of all nodes that it does not have yet. So a barrier costs one message in each direction for each
// node, unless the puts do not fit one message.
type Exchange struct {
	nodes    []int // by rank
	count    int   // of nodes
	names    *store
	log      []Put             // puts that some nodes have not received yet
	bytes    int               // of log
	sent     []int             // by node: how many puts of log it has received
	arrived  map[string][]bool // by key of the group: which nodes have entered the barrier
	waiting  []int             // by node: how many barriers of arrived it has entered
	most     []int             // by node: the limit of waiting
	maxBytes int               // limit of bytes
}

// Delivery is a message for some nodes.
type Delivery struct {
	Nodes   []int
	Message ExchangeMessage
}

// NewExchange returns an exchange for a job of size ranks, whose nodes are described by a PMI_process_mapping.
func NewExchange(mapping string, size int) (*Exchange, error) {
	nodes, err := parseMapping(mapping, size)
	if err != nil {
		return nil, err
	}
	count := slices.Max(nodes) + 1
	x := &Exchange{nodes: nodes, count: count, names: newStore(), sent: make([]int, count), arrived: make(map[string][]bool),
		waiting: make([]int, count), most: make([]int, count), maxBytes: size * maxRankBytes}
	for _, node := range nodes {
		x.most[node] += maxBarriersPerRank // a rank waits in each barrier that its node has entered
	}
	return x, nil
}

// Receive processes a message of a node's server and returns the messages to deliver, in order. After an error the job cannot
// continue.
func (x *Exchange) Receive(node int, m *ExchangeMessage) ([]Delivery, error) {
	if node < 0 || node >= x.count {
		return nil, fmt.Errorf("%w: from node %d of %d", errExchange, node, x.count)
	}
	if m.Name != nil {
		if !x.runsOn(m.Name.Rank, node) {
			return nil, fmt.Errorf("%w: name request of rank %d from node %d", errExchange, m.Name.Rank, node)
		}
		answer := *m.Name
		answer.resolve(x.names)
		return []Delivery{{[]int{node}, ExchangeMessage{Name: &answer}}}, nil
	}
	for i := range m.Puts {
		put := &m.Puts[i]
		if !x.runsOn(put.Rank, node) || len(put.Key) >= keyMax || len(put.Value) >= valueMax {
			return nil, fmt.Errorf("%w: rank %d on node %d has put %.70q", errExchange, put.Rank, node, put.Key)
		}
		x.bytes += put.size()
	}
	if x.bytes > x.maxBytes {
		return nil, fmt.Errorf("pmi: %d bytes of keys and values wait for a barrier of all nodes; the limit is %d", x.bytes, x.maxBytes)
	}
	x.log = append(x.log, m.Puts...)
	if m.More {
		return nil, nil
	}
	return x.arrive(node, m.Group)
}

func (x *Exchange) runsOn(rank, node int) bool {
	return rank >= 0 && rank < len(x.nodes) && x.nodes[rank] == node
}

// arrive records that a node has entered a barrier. The last node releases all.
func (x *Exchange) arrive(node int, group string) ([]Delivery, error) {
	g, err := parseGroup(group, x.nodes, -1)
	if err != nil || g.key != group {
		return nil, fmt.Errorf("%w: barrier %.70q", errExchange, group)
	}
	nodes := x.arrived[group]
	if nodes == nil {
		nodes = make([]bool, x.count)
	}
	members := g.nodesWithMembers(x.nodes, x.count)
	if nodes[node] || !members[node] {
		return nil, fmt.Errorf("%w: node %d enters barrier %.70q twice or without having members", errExchange, node, group)
	}
	if x.waiting[node] == x.most[node] {
		return nil, fmt.Errorf("%w: node %d waits in %d barriers, and enters barrier %.70q", errExchange, node, x.most[node], group)
	}
	nodes[node] = true
	x.waiting[node]++
	x.arrived[group] = nodes
	if !slices.Equal(nodes, members) {
		return nil, nil
	}
	delete(x.arrived, group)
	for member, is := range members {
		if is {
			x.waiting[member]--
		}
	}
	return x.release(group, members), nil
}

// release returns the messages that complete a barrier. Nodes that lack the same puts get the same messages.
func (x *Exchange) release(group string, members []bool) (list []Delivery) {
	nodesFrom := map[int][]int{} // index of the first missing put -> nodes
	for node, is := range members {
		if is {
			nodesFrom[x.sent[node]] = append(nodesFrom[x.sent[node]], node)
			x.sent[node] = len(x.log)
		}
	}
	for from, nodes := range nodesFrom {
		for _, m := range barrierMessages(group, slices.Clip(x.log[from:])) {
			list = append(list, Delivery{nodes, m})
		}
	}
	if done := x.sentToAll(); done > 0 {
		for i := range x.log[:done] {
			x.bytes -= x.log[i].size()
		}
		x.log = slices.Clone(x.log[done:]) // the messages still refer to the old one
		for node := range x.sent {
			x.sent[node] = max(0, x.sent[node]-done)
		}
	}
	return list
}

// sentToAll returns how many puts of the log all nodes with ranks have received.
func (x *Exchange) sentToAll() int {
	least := len(x.log)
	for _, node := range x.nodes {
		least = min(least, x.sent[node])
	}
	return least
}

// NameRequest is a request about a published name, and its answer.
type NameRequest struct {
	// Rank is the rank that sent the request.
	Rank int
	// Cmd is publish_name, unpublish_name or lookup_name.
	Cmd string
	// Service is the name, and Port the text that is published under it.
	Service, Port []byte
	// Why is, in an answer, the reason why the request failed. It is empty if it succeeded.
	Why string `json:",omitempty"`
}

// resolve performs the request on names and makes it the answer.
func (n *NameRequest) resolve(names *store) {
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

// reply sends the answer to the rank. Slurm's clients read info, MPICH's read rc.
func (n *NameRequest) reply(c *session) error {
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
