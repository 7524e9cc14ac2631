package coordinator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

const (
	// maxCommandShown is how many bytes of a command line are shown in messages.
	maxCommandShown = 200
	// maxNodeName is how many bytes the name of a node has at most.
	maxNodeName = 1 << 10
)

// isPort reports whether a port has this number; 0: there is none.
func isPort(n int) bool { return n >= 0 && n <= 65535 }

// newJoin describes the command line of this node. Working directories, environment variables and core binding may differ
// between nodes, so they are not part of it.
func newJoin(name string, cmd *Command) *protocol.Join {
	var programs []string
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", cmd.Mapping)
	for _, program := range cmd.Programs {
		programs = append(programs, fmt.Sprintf("-n %d %s", program.Ranks, strings.Join(program.Args, " ")))
		fmt.Fprintf(hash, "%d %q\n", program.Ranks, program.Args)
	}
	for _, p := range cmd.Psets {
		fmt.Fprintf(hash, "%q %s\n", p.Name, p.Ranks)
	}
	shown := strings.TrimLeft(cmd.Mapping+" "+strings.Join(programs, " : "), " ")
	return &protocol.Join{Name: name, Command: beginning(shown, maxCommandShown), Hash: hex.EncodeToString(hash.Sum(nil))}
}

// beginning returns at most n bytes of a text, and no part of a character. Bytes that are not text become question marks.
func beginning(text string, n int) string {
	if n = min(n, len(text)); n < len(text) {
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
	}
	return strings.ToValidUTF8(text[:n], "?")
}

// checkCommand returns an error if the command line of another node differs from that of the
// coordinator, which has that many nodes.
func checkCommand(j *protocol.Join, nodes, node, ofNodes int, other *protocol.Join) error {
	who := fmt.Sprintf("node %d (%s)", node, other.Name)
	switch {
	case other.Name == "" || len(other.Name) > maxNodeName || !isPort(other.Port):
		return exitcode.Errorf(exitcode.Failed, "node %d sent an invalid request to join, with the name %.70q", node, other.Name)
	case ofNodes != nodes:
		return exitcode.Errorf(exitcode.UsageError, "%s was started for %d nodes, but node 0 for %d nodes (--node)",
			who, ofNodes, nodes)
	case other.Hash != j.Hash:
		return exitcode.Errorf(exitcode.UsageError,
			"%s was started with %q, but node 0 with %q; all nodes must start the same programs", who,
			beginning(other.Command, maxCommandShown), j.Command)
	}
	return nil
}
