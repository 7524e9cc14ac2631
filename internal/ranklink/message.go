package ranklink

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/internal/auth"
)

// MaxPacket is the maximum length of a packet in bytes, including kind and version.
const MaxPacket = 64 << 10

// version is the version of the bodies below. It is incremented if an old receiver would misinterpret a changed body.
const version = 1

// headerBytes is the length of kind and version.
const headerBytes = 2

var (
	// ErrMalformed means that the other side sent an invalid packet.
	ErrMalformed = errors.New("ranklink: malformed packet")
	// ErrTaken means that another program of the same rank has received the first message.
	ErrTaken = errors.New("ranklink: another program of this rank has received ibrun's first message. A rank can run " +
		"one MPI program: start the others as jobs of their own (ibrun -n N PROGRAM), or with PMI_FD and IBRUN_FD unset, as " +
		"worlds of one")
	// ErrVersion means that ibrun and this program speak different versions of the link.
	ErrVersion = errors.New("ranklink: this program and the ibrun that started it are of different versions; " +
		"build the program with the version of the library that ibrun has")
	// ErrNotSupported is returned by Pair and FromEnv on systems without sockets of this type.
	ErrNotSupported = errors.New("ranklink: the link between ibrun and a rank needs Linux")
)

// Kind is the kind of a message. Numbers are never reused.
type Kind uint8

// The kinds of message, with the direction and the body.
const (
	// KindRankInfo is sent by the agent once, before the rank runs. Body: [RankInfo].
	KindRankInfo Kind = 1
	// KindStarted is sent by the rank after initialisation. No body.
	KindStarted Kind = 2
	// KindFinalized is sent by the rank after it has finalized. No body.
	KindFinalized Kind = 3
	// KindNote is sent by the rank; it has a text for the user. Body: [Note].
	KindNote Kind = 4
	// KindRequestStacks is sent by the agent to request the stacks of the rank's goroutines. The agent sends it only after
	// KindStarted, and a second time only after the answer. No body.
	KindRequestStacks Kind = 5
	// KindStacks is sent by the rank as the answer. Body: [Stacks].
	KindStacks Kind = 6
	// KindLeft is sent by the agent after KindStarted, when ranks of the job have left it: they have finalized or exited. Body:
	// [Left].
	KindLeft Kind = 7
	// KindSocketRequest is sent by the rank to request the socket that leads to a rank of the node. Body: [LocalRank].
	KindSocketRequest Kind = 10
	// KindSocket is sent by the agent as the answer. Body: [LocalRank]. It has one descriptor. If the rank has named itself, it has
	// the three of wakesock.Ends. It has none if there is no such rank, or if a rank requests its own a second time.
	KindSocket Kind = 11
	// KindWakeRequest is sent by the rank to have another rank of the node woken. A rank sends it if it has no descriptor left for
	// that rank's socket, or closes before the socket has arrived. Body: [LocalRank].
	KindWakeRequest Kind = 12
)

// followsInfo reports whether the agent sends messages of this kind, all of them after [RankInfo].
func (k Kind) followsInfo() bool { return k == KindRequestStacks || k == KindLeft || k == KindSocket }

// isKnown reports whether Recv returns messages of this kind.
func (k Kind) isKnown() bool {
	return k >= KindRankInfo && k <= KindLeft || k >= KindSocketRequest && k <= KindWakeRequest
}

// RankInfo is the description of a job and of one rank in it.
type RankInfo struct {
	// JobID names the job. It is unique on the node and can be part of a file name.
	JobID string
	// Secret is known to the ranks of this job only.
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
	// Cores are the numbers of the logical processors that this rank is bound to. It is empty if the rank is not bound.
	Cores []int
	// Oversubscribed is set if more ranks share the processors of this rank than there are processors.
	Oversubscribed bool `json:",omitempty"`
	// Devices are the RDMA devices nearest to Cores, or ports of them (mlx5_0:1). The rank uses the first of them that works,
	// unless the user names others.
	Devices []string `json:",omitempty"`
	// Page is the memory for the counters of the rank. It is nil if the agent has none for it.
	Page *FileRange `json:",omitempty"`
	// Trace is the memory for a trace of the rank's operations, Profile the memory for its profiles. They are nil if these were not
	// requested. Both are in the file of Page and have the same descriptor. The formats are defined in perf and perf/profile.
	Trace   *FileRange `json:",omitempty"`
	Profile *FileRange `json:",omitempty"`
	// Localities are the localities of NodeRanks, in the same order. It is empty if none is known.
	Localities []Locality `json:",omitempty"`
	// Sockets says that the agent answers KindSocketRequest.
	Sockets bool `json:",omitempty"`
	// Psets are the process sets that the user has defined, in the same order for all ranks.
	Psets []Pset `json:",omitempty"`
}

// Locality describes where a rank was placed when it started.
type Locality struct {
	// NUMA is the NUMA node that the rank is bound to, or the only one of the machine. It is -1 if there is none.
	NUMA int
	// Rails are the numbers of the RDMA ports that are nearest to it.
	Rails []int `json:",omitempty"`
}

// Pset is a process set.
type Pset struct {
	// Name is the name as the user wrote it.
	Name string
	// Ranks are ranges of ranks, each with its first and last rank, in ascending order with gaps between them.
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
		return fmt.Errorf("%w: a process set without a name or without ranks", ErrMalformed)
	}
	return nil
}

// FileRange is a range of a file that the rank inherits, and that the agent and ibrun map as well.
type FileRange struct {
	// FD is the descriptor that the rank inherits. The rank must close it.
	FD int
	// Offset and Bytes are the position and the length of the range in the file.
	Offset int64
	Bytes  int
}

// check returns an error if the fields of r contradict each other.
func (r *RankInfo) check() error {
	if r.Rank < 0 || r.Rank >= r.Size || r.LocalRank < 0 || r.LocalRank >= len(r.NodeRanks) || r.NodeRanks[r.LocalRank] != r.Rank {
		return fmt.Errorf("%w: rank %d of %d is not number %d of the node's ranks %v",
			ErrMalformed, r.Rank, r.Size, r.LocalRank, r.NodeRanks)
	}
	if len(r.Localities) != 0 && len(r.Localities) != len(r.NodeRanks) {
		return fmt.Errorf("%w: %d localities for %d ranks", ErrMalformed, len(r.Localities), len(r.NodeRanks))
	}
	for i := range r.Psets {
		if err := r.Psets[i].check(r.Size); err != nil {
			return err
		}
	}
	return nil
}

// Left names ranks that have left the job.
type Left struct {
	Ranks []int
}

// Note is a line that ibrun prints for the user, marked with the rank.
type Note struct {
	Text string
	// Once names what the note is about, if other ranks of the node may have the same to say. ibrun prints the first of these notes.
	Once string `json:",omitempty"`
	// Info says that it is about what the rank does. Otherwise the user may want to change something.
	Info bool `json:",omitempty"`
}

// LocalRank names a rank of the node by its position in [RankInfo.NodeRanks].
type LocalRank struct {
	Local int
}

// MaxStacks is the maximum length of the text of [Stacks] in bytes, so that it fits a packet as JSON.
const MaxStacks = 40 << 10

// Stacks are the stacks of a rank's goroutines as the Go runtime prints them, without the goroutines that serve ibrun.
type Stacks struct {
	Text string
	// Truncated is set if there were more stacks than fit.
	Truncated bool `json:",omitempty"`
}

// Message is one received message. Its memory belongs to the receiver.
type Message struct {
	// Kind is one of the kinds above.
	Kind Kind
	// Files are the descriptors that came with the message. They belong to the receiver, too, which has to close them.
	Files []int
	body  []byte
}

// Decode decodes the body into v, a pointer to the type that belongs to Kind. It returns [ErrMalformed] if the message has no
// body.
func (m Message) Decode(v any) error {
	if err := json.Unmarshal(m.body, v); err != nil {
		return fmt.Errorf("%w: kind %d: %v", ErrMalformed, m.Kind, err)
	}
	return nil
}

// encode returns a packet, without a body if v is nil.
func encode(kind Kind, v any) ([]byte, error) {
	packet := []byte{byte(kind), version}
	if v == nil {
		return packet, nil
	}
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("ranklink: encode kind %d: %w", kind, err)
	}
	if len(body)+headerBytes > MaxPacket {
		return nil, fmt.Errorf("ranklink: a message of kind %d takes %d bytes; the limit is %d", kind, len(body)+headerBytes, MaxPacket)
	}
	return append(packet, body...), nil
}

// decode decodes a packet. The message refers to the memory of the packet. ok is false if this program does not know the kind
// or the version.
func decode(packet []byte) (m Message, ok bool, err error) {
	if len(packet) < headerBytes || len(packet) > MaxPacket {
		return Message{}, false, fmt.Errorf("%w: %d bytes", ErrMalformed, len(packet))
	}
	m = Message{Kind: Kind(packet[0]), body: packet[headerBytes:]}
	if !m.Kind.isKnown() || packet[1] != version {
		return Message{}, false, nil
	}
	if len(m.body) > 0 && !json.Valid(m.body) {
		return Message{}, false, fmt.Errorf("%w: kind %d: the body is not JSON", ErrMalformed, m.Kind)
	}
	return m, true, nil
}
