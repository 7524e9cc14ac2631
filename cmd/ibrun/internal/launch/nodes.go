package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
)

// blocks deals the ranks of a job out to its nodes: each has as many as any other or one more, next to each other.
type blocks struct{ size, nodes int }

// of returns the first rank of a node, and how many it has.
func (b blocks) of(node int) (first, n int) {
	each, more := b.size/b.nodes, b.size%b.nodes
	if node < more {
		return node * (each + 1), each + 1
	}
	return node*each + more, each
}

// node returns the node of a rank.
func (b blocks) node(rank int) int {
	each, more := b.size/b.nodes, b.size%b.nodes
	if rank < more*(each+1) {
		return rank / (each + 1)
	}
	return (rank - more) / each
}

// mapping writes it down as PMI_process_mapping.
func (b blocks) mapping() string {
	each, more := b.size/b.nodes, b.size%b.nodes
	if more == 0 {
		return fmt.Sprintf("(vector,(0,%d,%d))", b.nodes, each)
	}
	return fmt.Sprintf("(vector,(0,%d,%d),(%d,%d,%d))", more, each+1, more, b.nodes-more, each)
}

// join is what a node says of itself before it may take part.
type join struct {
	Name  string // of the node
	Words string // the beginning of its command line, to show
	Hash  string // of the whole
}

// welcome is what node 0 tells the others once all are there.
type welcome struct {
	JobID string
	// Salt makes this job's secret out of that of the nodes, which so need not travel.
	Salt       []byte
	MasterPort int
}

// verdict is node 0's last word: the exit code of the job, and why.
type verdict struct {
	Code  int
	Lines []string `json:",omitempty"`
}

// wordsShown is how much of a command line is shown.
const wordsShown = 200

// newJoin says what this node has been told to start. Nodes need not agree on directories and variables, which may
// differ from machine to machine.
func newJoin(p *plan, o *cli.Options) *join {
	var programs []string
	hash := sha256.New()
	for _, program := range o.Programs {
		programs = append(programs, fmt.Sprintf("-n %d %s", program.Ranks, strings.Join(program.Args, " ")))
		fmt.Fprintf(hash, "%d %q\n", program.Ranks, program.Args)
	}
	shown := strings.Join(programs, " : ")
	return &join{Name: p.host, Words: shown[:min(len(shown), wordsShown)], Hash: hex.EncodeToString(hash.Sum(nil))}
}

// check tells how another node's command differs from node 0's, which has that many nodes.
func (j *join) check(nodes, node, ofNodes int, other *join) error {
	who := fmt.Sprintf("node %d (%s)", node, other.Name)
	switch {
	case ofNodes != nodes:
		return fail(codeUsage, "%s was told that there are %d nodes, and node 0 that there are %d (--node)", who, ofNodes, nodes)
	case other.Hash != j.Hash:
		return fail(codeUsage, "%s is to start %q, and node 0 %q; all nodes start the same", who, other.Words, j.Words)
	}
	return nil
}

// decodeEvent reads what another node has said.
func decodeEvent(text []byte) (*event, error) {
	e := new(event)
	if err := json.Unmarshal(text, e); err != nil {
		return nil, fmt.Errorf("what came is no event: %w", err)
	}
	return e, nil
}

// decodeOrder reads what node 0 has said.
func decodeOrder(text []byte) (*order, error) {
	o := new(order)
	if err := json.Unmarshal(text, o); err != nil {
		return nil, fmt.Errorf("what came is no order: %w", err)
	}
	return o, nil
}
