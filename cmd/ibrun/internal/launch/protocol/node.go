package protocol

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/allocation"
)

// NodeProtocol is the version of all messages between the nodes of a job. It changes with them, so that a node of another build
// is refused.
const NodeProtocol = 2

// maxNodeStart is the length of the longest start message in bytes, with its newline.
const maxNodeStart = 16 << 20

// NodeStart is the start message: what a node that the coordinator has started needs to join the
// job. It is one line of JSON on the standard input of "ibrun node".
type NodeStart struct {
	Protocol int    // NodeProtocol of the sender
	Version  string // of the sender, for messages
	// Secret is what the nodes of this job authenticate each other with.
	Secret []byte
	// Rendezvous is the address where the coordinator listens. Empty: standard input and output are
	// the control connection.
	Rendezvous string `json:",omitempty"`
	// Node is the number of this node. 0: all nodes read the same message, and a node finds its number by its name.
	Node int `json:",omitempty"`
	// Assignment has the nodes of the job and their ranks.
	Assignment *allocation.Assignment
	// Coordinator is the name of the node of the coordinator, for messages.
	Coordinator string `json:"Head"`
	// Args is the command line of ibrun, and Env its environment.
	Args, Env Words
	// Scheduled says that a scheduler has set the variables of this node that concern devices and temporary files.
	Scheduled bool `json:",omitempty"`
	// RankFile is the content of the rank file that Args names, if any.
	RankFile string `json:",omitempty"`
	// Dir is the working directory of ibrun.
	Dir Text
	// JoinTimeout limits how long the node waits until all nodes have joined.
	JoinTimeout time.Duration
}

// Encode returns the message as a line.
func (s *NodeStart) Encode() ([]byte, error) {
	text, err := json.Marshal(s)
	if err == nil && len(text) >= maxNodeStart {
		err = fmt.Errorf("the command line and the environment have %d bytes, and the nodes of a job accept %d", len(text),
			maxNodeStart)
	}
	return append(text, '\n'), err
}

// errNodeStart means that a start message is invalid.
var errNodeStart = errors.New("invalid start message")

// ReadNodeStart reads a start message. The coordinator sends nothing after it before the node has
// answered.
func ReadNodeStart(from io.Reader) (*NodeStart, error) {
	in := bufio.NewReaderSize(io.LimitReader(from, maxNodeStart), 64<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("%w: %d bytes without a newline: %w", errNodeStart, len(line), err)
		}
	}
	if in.Buffered() > 0 {
		return nil, fmt.Errorf("%w: %d bytes follow it", errNodeStart, in.Buffered())
	}
	return decodeNodeStart(line)
}

// decodeNodeStart parses a start message with its newline.
func decodeNodeStart(line []byte) (*NodeStart, error) {
	text, complete := strings.CutSuffix(string(line), "\n")
	s := new(NodeStart)
	if !complete {
		return nil, fmt.Errorf("%w: it has no end", errNodeStart)
	}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return nil, fmt.Errorf("%w: %w", errNodeStart, err)
	}
	switch {
	case s.Protocol != NodeProtocol:
		return nil, fmt.Errorf("%w: it is of ibrun %s (protocol %d), this is protocol %d", errNodeStart, s.Version, s.Protocol,
			NodeProtocol)
	case len(s.Secret) < 32:
		return nil, fmt.Errorf("%w: a secret of %d bytes", errNodeStart, len(s.Secret))
	case s.Assignment == nil:
		return nil, fmt.Errorf("%w: no nodes", errNodeStart)
	case len(s.Args) == 0:
		return nil, fmt.Errorf("%w: no program", errNodeStart)
	}
	if err := s.Assignment.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNodeStart, err)
	}
	if s.Node < 0 || s.Node >= s.Assignment.Nodes() {
		return nil, fmt.Errorf("%w: node %d of %d", errNodeStart, s.Node, s.Assignment.Nodes())
	}
	return s, nil
}

// FindNode returns the number of the node that this is, on the host with this name.
func (s *NodeStart) FindNode(host string) (node int, err error) {
	if s.Node > 0 {
		return s.Node, nil
	}
	for node := 1; node < s.Assignment.Nodes(); node++ {
		if s.Assignment.Host(node).Name == host {
			return node, nil
		}
	}
	return 0, fmt.Errorf("%w: host %s is not one of the hosts of the job", errNodeStart, host)
}

// greetingWord begins the first line that "ibrun node" writes.
const greetingWord = "ibrun-node"

// Greeting is the first line that "ibrun node" writes, before it has read anything. What a login shell writes before it is
// skipped.
type Greeting struct {
	Protocol int
	Version  string // a word
	Host     string // a word
}

// String returns the line without its newline.
func (g Greeting) String() string {
	return fmt.Sprintf("%s %d %s %s", greetingWord, g.Protocol, g.Version, g.Host)
}

// DecodeGreeting parses a line without its newline. ok is false if it is not a greeting.
func DecodeGreeting(line string) (g Greeting, ok bool) {
	line = strings.TrimSuffix(line, "\r")
	words := strings.Split(line, " ")
	if len(words) != 4 || words[0] != greetingWord || words[2] == "" || words[3] == "" ||
		strings.ContainsFunc(line, unicode.IsControl) {
		return g, false
	}
	n, err := strconv.Atoi(words[1])
	return Greeting{n, words[2], words[3]}, err == nil && n > 0
}
