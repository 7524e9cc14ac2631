package ranklink

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/internal/auth"
)

// MaxPacket is the length of the largest packet in bytes, kind and version included.
const MaxPacket = 64 << 10

// version is that of the bodies below. A body that changes so that an old reader would misread it gets the next one.
const version = 1

// headerBytes is kind and version.
const headerBytes = 2

var (
	// ErrMalformed says that the other side sent what no correct side sends.
	ErrMalformed = errors.New("job: malformed packet")
	// ErrNotSupported is what Pair and FromEnv return on systems without sockets of the kind the link is made of.
	ErrNotSupported = errors.New("job: the link between ibrun and a rank needs Linux")
)

// Kind tells messages apart. Numbers are never reused.
type Kind uint8

// The kinds of message, with the direction and the body.
const (
	// KindHello goes from agent to rank, once, before the rank runs. Body: [Hello].
	KindHello Kind = 1
	// KindStarted goes from rank to agent when initialisation has finished. No body.
	KindStarted Kind = 2
	// KindFinalized goes from rank to agent when the rank has finalized. No body.
	KindFinalized Kind = 3
	// KindNote goes from rank to agent: something the user should read. Body: [Note].
	KindNote Kind = 4
	// KindAskStacks goes from agent to rank: what are your goroutines doing? Only ranks that have sent KindStarted are asked, and
	// again only after they have answered. No body.
	KindAskStacks Kind = 5
	// KindStacks goes from rank to agent: the answer. Body: [Stacks].
	KindStacks Kind = 6
)

// known tells whether Recv hands the kind out.
func (k Kind) known() bool { return k >= KindHello && k <= KindStacks }

// Hello is everything a rank needs to know about its job and its place in it.
type Hello struct {
	// JobID names the job; it is unique on the node and fits a file name.
	JobID string
	// Secret is shared by the ranks of this job and nobody else.
	Secret auth.Key
	// Rank is this process's number, 0 <= Rank < Size.
	Rank int
	// Size is the number of ranks of the job.
	Size int
	// Node is the number of this node among the Nodes nodes of the job, from 0.
	Node, Nodes int
	// NodeName is the name of this node.
	NodeName string
	// NodeRanks are the ranks on this node, ascending, Rank among them.
	NodeRanks []int
	// LocalRank is the position of Rank in NodeRanks.
	LocalRank int
	// AgentPID is the process that started the ranks of this node.
	AgentPID int
	// Cores are the numbers of the logical processors this rank is bound to, empty where it is not bound.
	Cores []int
	// Crowded says that there are more ranks on the processors that this one may use than these are.
	Crowded bool `json:",omitempty"`
	// Devices are the RDMA devices, or ports of them (mlx5_0:1), nearest to Cores: those to take, the first that works, unless
	// the user names others.
	Devices []string `json:",omitempty"`
	// Page is the memory in which the rank records what it does, nil if the agent has none for it.
	Page *Page `json:",omitempty"`
	// Trace is the memory in which the rank writes down what it does one by one, nil if nobody wants to know, and Profile that for
	// profiles, likewise. Both are in the file of Page, under the same descriptor. Their formats are those of perf and perf/profile.
	Trace   *Page `json:",omitempty"`
	Profile *Page `json:",omitempty"`
	// Homes says of each of NodeRanks where it runs.
	Homes []Home `json:",omitempty"`
	// Psets are the process sets that the user has defined, in the same order for all ranks.
	Psets []Pset `json:",omitempty"`
}

// Home is where a rank was placed when it started.
type Home struct {
	// NUMA is the NUMA node that it is bound to, or the only one; -1 for none.
	NUMA int
	// Rails are the numbers of the RDMA ports that are nearest to it.
	Rails []int `json:",omitempty"`
}

// Pset is a process set.
type Pset struct {
	// Name is as the user wrote it.
	Name string
	// Ranks are ranges, first and last included, ascending, with gaps between them.
	Ranks [][2]int
}

func (p *Pset) check(size int) error {
	next := 0
	for _, r := range p.Ranks {
		if r[0] < next || r[1] < r[0] || r[1] >= size {
			return fmt.Errorf("%w: process set %q of %d ranks has %v", ErrMalformed, p.Name, size, p.Ranks)
		}
		next = r[1] + 2
	}
	if p.Name == "" || len(p.Ranks) == 0 {
		return fmt.Errorf("%w: a process set without name or ranks", ErrMalformed)
	}
	return nil
}

// Page is a part of a file that the rank inherits, which the agent and ibrun map as well. Its format is that of package perf.
type Page struct {
	// FD is the descriptor that the rank inherits. It is the rank's own, to be closed.
	FD int
	// Offset and Bytes say where in the file the rank's page is, and how long.
	Offset int64
	Bytes  int
}

// check tells whether the parts of h fit together.
func (h *Hello) check() error {
	if h.Rank < 0 || h.Rank >= h.Size || h.LocalRank < 0 || h.LocalRank >= len(h.NodeRanks) || h.NodeRanks[h.LocalRank] != h.Rank {
		return fmt.Errorf("%w: rank %d of %d is not number %d of the node's ranks %v",
			ErrMalformed, h.Rank, h.Size, h.LocalRank, h.NodeRanks)
	}
	if len(h.Homes) != 0 && len(h.Homes) != len(h.NodeRanks) {
		return fmt.Errorf("%w: %d homes of %d ranks", ErrMalformed, len(h.Homes), len(h.NodeRanks))
	}
	for i := range h.Psets {
		if err := h.Psets[i].check(h.Size); err != nil {
			return err
		}
	}
	return nil
}

// Note is a line that ibrun shows to its user under the rank's name.
type Note struct {
	Text string
}

// MaxStacks is how long the text of [Stacks] is at most, in bytes, so that it fits a packet as JSON.
const MaxStacks = 40 << 10

// Stacks are those of a rank's goroutines, as the Go runtime writes them, without those that serve ibrun.
type Stacks struct {
	Text string
	// Cut says that there were more.
	Cut bool `json:",omitempty"`
}

// Message is one received message. Its memory is the receiver's own.
type Message struct {
	// Kind is one of the kinds above.
	Kind Kind
	body []byte
}

// Decode reads the body into v, a pointer to the type that belongs to Kind. A message without a body is [ErrMalformed].
func (m Message) Decode(v any) error {
	if err := json.Unmarshal(m.body, v); err != nil {
		return fmt.Errorf("%w: kind %d: %v", ErrMalformed, m.Kind, err)
	}
	return nil
}

// encode makes a packet; a nil v makes one without body.
func encode(kind Kind, v any) ([]byte, error) {
	packet := []byte{byte(kind), version}
	if v == nil {
		return packet, nil
	}
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("job: encode kind %d: %w", kind, err)
	}
	if len(body)+headerBytes > MaxPacket {
		return nil, fmt.Errorf("job: message of kind %d takes %d bytes, a packet holds %d", kind, len(body)+headerBytes, MaxPacket)
	}
	return append(packet, body...), nil
}

// decode reads a packet, whose memory the message keeps. It reports false for kinds and versions this program does
// not know.
func decode(packet []byte) (m Message, ok bool, err error) {
	if len(packet) < headerBytes || len(packet) > MaxPacket {
		return Message{}, false, fmt.Errorf("%w: %d bytes", ErrMalformed, len(packet))
	}
	m = Message{Kind: Kind(packet[0]), body: packet[headerBytes:]}
	if !m.Kind.known() || packet[1] != version {
		return Message{}, false, nil
	}
	if len(m.body) > 0 && !json.Valid(m.body) {
		return Message{}, false, fmt.Errorf("%w: kind %d: body is no JSON", ErrMalformed, m.Kind)
	}
	return m, true, nil
}
