package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
)

// Layout says which ranks are on which node.
type Layout struct {
	NodeOf  []int   // the node of each rank
	RanksOn [][]int // the ranks of each node, ascending
}

func NewLayout(at []int, nodes int) Layout {
	l := Layout{at, make([][]int, nodes)}
	for rank, node := range at {
		l.RanksOn[node] = append(l.RanksOn[node], rank)
	}
	return l
}

// Mapping writes it down as PMI_process_mapping: blocks of ranks on neighbouring nodes, equally many on each. What repeats
// from rank 0 on node 0 is written once.
func (l Layout) Mapping() string {
	period := len(l.NodeOf)
	if l.NodeOf[0] == 0 {
		period = repeats(l.NodeOf)
	}
	type block struct{ node, nodes, each int }
	var blocks []block
	for i := 0; i < period; {
		each := 1
		for i+each < period && l.NodeOf[i+each] == l.NodeOf[i] {
			each++
		}
		last := len(blocks) - 1
		if last >= 0 && blocks[last].each == each && blocks[last].node+blocks[last].nodes == l.NodeOf[i] {
			blocks[last].nodes++
		} else {
			blocks = append(blocks, block{l.NodeOf[i], 1, each})
		}
		i += each
	}
	var b strings.Builder
	for _, k := range blocks {
		fmt.Fprintf(&b, ",(%d,%d,%d)", k.node, k.nodes, k.each)
	}
	return "(vector" + b.String() + ")"
}

// repeats is the length of the shortest beginning of a list that, repeated, is the list.
func repeats(list []int) int {
	border := make([]int, len(list)) // of each beginning: the longest shorter one that it also ends with
	for i := 1; i < len(list); i++ {
		n := border[i-1]
		for n > 0 && list[n] != list[i] {
			n = border[n-1]
		}
		if list[n] == list[i] {
			n++
		}
		border[i] = n
	}
	return len(list) - border[len(list)-1]
}

// Join is what a node says of itself before it may take part.
type Join struct {
	Name    string // of the node
	Command string `json:"Words"` // the beginning of its command line, to show
	Hash    string // of the whole
}

// Welcome is what node 0 tells the others once all are there.
type Welcome struct {
	JobID string
	// Names are those of the nodes.
	Names []string
	// Salt makes this job's secret out of that of the nodes, which so need not travel.
	Salt       []byte
	MasterPort int
	Report     bool `json:",omitempty"` // the nodes tell node 0 what a report needs
}

// Outcome is node 0's last word: the exit code of the job, and why.
type Outcome struct {
	Code  int
	Lines []string `json:",omitempty"`
}

// wordsShown is how much of a command line is shown.
const maxCommandShown = 200

// newJoin says what this node has been told to start. Nodes need not agree on directories and variables, which may
// differ from machine to machine, nor on what ranks are bound to.
func newJoin(name string, o *cli.Options) *Join {
	var programs []string
	hash := sha256.New()
	across := o.Policy.Across()
	fmt.Fprintf(hash, "%s\n", across)
	for _, program := range o.Programs {
		programs = append(programs, fmt.Sprintf("-n %d %s", program.Ranks, strings.Join(program.Args, " ")))
		fmt.Fprintf(hash, "%d %q\n", program.Ranks, program.Args)
	}
	for _, p := range o.Psets {
		fmt.Fprintf(hash, "%q %v\n", p.Name, p.Ranks)
	}
	shown := strings.TrimLeft(across+" "+strings.Join(programs, " : "), " ")
	return &Join{Name: name, Command: shown[:min(len(shown), maxCommandShown)], Hash: hex.EncodeToString(hash.Sum(nil))}
}

// checkCommand tells how another node's command differs from node 0's, which has that many nodes.
func checkCommand(j *Join, nodes, node, ofNodes int, other *Join) error {
	who := fmt.Sprintf("node %d (%s)", node, other.Name)
	switch {
	case ofNodes != nodes:
		return Errorf(UsageError, "%s was told that there are %d nodes, and node 0 that there are %d (--node)", who, ofNodes, nodes)
	case other.Hash != j.Hash:
		return Errorf(UsageError, "%s is to start %q, and node 0 %q; all nodes start the same", who, other.Command, j.Command)
	}
	return nil
}

// decodeEvent reads what another node has said.
func decodeEvent(text []byte) (*Event, error) {
	e := new(Event)
	if err := json.Unmarshal(text, e); err != nil {
		return nil, fmt.Errorf("what came is no event: %w", err)
	}
	return e, nil
}

// decodeOrder reads what node 0 has said.
func decodeOrder(text []byte) (*Order, error) {
	o := new(Order)
	if err := json.Unmarshal(text, o); err != nil {
		return nil, fmt.Errorf("what came is no order: %w", err)
	}
	return o, nil
}
