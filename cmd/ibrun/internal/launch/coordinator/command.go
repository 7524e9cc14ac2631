package coordinator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// wordsShown is how much of a command line is shown.
const maxCommandShown = 200

// newJoin says what this node has been told to start. Nodes need not agree on directories and variables, which may
// differ from machine to machine, nor on what ranks are bound to.
func newJoin(name string, o *cli.Options) *protocol.Join {
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
	return &protocol.Join{Name: name, Command: shown[:min(len(shown), maxCommandShown)], Hash: hex.EncodeToString(hash.Sum(nil))}
}

// checkCommand tells how another node's command differs from node 0's, which has that many nodes.
func checkCommand(j *protocol.Join, nodes, node, ofNodes int, other *protocol.Join) error {
	who := fmt.Sprintf("node %d (%s)", node, other.Name)
	switch {
	case ofNodes != nodes:
		return exitcode.Errorf(exitcode.UsageError, "%s was told that there are %d nodes, and node 0 that there are %d (--node)",
			who, ofNodes, nodes)
	case other.Hash != j.Hash:
		return exitcode.Errorf(exitcode.UsageError, "%s is to start %q, and node 0 %q; all nodes start the same", who,
			other.Command, j.Command)
	}
	return nil
}
