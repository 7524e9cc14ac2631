package protocol

import (
	"log/slog"
	"slices"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/perf/jobs"
)

// Order is sent by ibrun to its agent, and by the coordinator to the other nodes. Exactly one field
// is set. If the stream ends, the sender has died.
type Order struct {
	Start    *Task                `json:",omitempty"` // to an agent: its first order
	Signal   int                  `json:",omitempty"` // to be sent to all ranks
	End      *EndOrder            `json:",omitempty"`
	Exchange *pmi.ExchangeMessage `json:"Parcel,omitempty"` // for the PMI server
	Stacks   []int                `json:",omitempty"`       // to an agent: ranks whose goroutine stacks are requested
	Left     []int                `json:",omitempty"`       // ranks that have finalized or exited, for the others to know
	Bar      *Progress            `json:",omitempty"`       // to an agent: the progress bar to draw
	Question *Question            `json:",omitempty"`       // to a node, as is Answer
	Answer   *Answer              `json:",omitempty"`

	OutputAck *OutputAck `json:",omitempty"` // to a node
	Input     *Input     `json:",omitempty"` // to the node of rank 0

	JobInfo *JobInfo   `json:"Welcome,omitempty"` // to a node: its first order
	File    *FileChunk `json:",omitempty"`        // to a node: a part of the file that EventNeedFile has requested
	Outcome *Outcome   `json:"Verdict,omitempty"` // to a node: its last order
}

// Question is a query of the coordinator to another node, or of another node to the coordinator:
// the state of all ranks that the receiver knows, or the goroutine stacks of some of them.
type Question struct {
	ID      uint64        // chosen by the sender
	Stacks  []int         `json:",omitempty"`
	Timeout time.Duration `json:"Patience"` // the sender waits this long for the answer, or a little longer
}

// Answer is an answer to a Question, or a part of one.
type Answer struct {
	ID     uint64         // of the question
	Ranks  []jobs.Rank    `json:",omitempty"`
	Stacks map[int]string `json:",omitempty"` // by rank
	More   bool           `json:",omitempty"` // more parts follow
}

// IsAbout reports whether the answer is only about ranks for which is returns true.
func (a *Answer) IsAbout(is func(rank int) bool) bool {
	for rank := range a.Stacks {
		if !is(rank) {
			return false
		}
	}
	return !slices.ContainsFunc(a.Ranks, func(r jobs.Rank) bool { return !is(r.Rank) })
}

// EndOrder orders an agent to end its ranks and then to exit.
type EndOrder struct {
	Grace        time.Duration // between SIGTERM and SIGKILL; 0: SIGKILL immediately
	LastOutputOf int           `json:"Tail"` // the rank whose last output is wanted; -1: none
	// OutputTimeout limits how long the agent forwards the ranks' output after they have exited. 0: no limit.
	OutputTimeout time.Duration `json:"Output,omitempty"`
}

// JobInfo is what the coordinator sends to the other nodes when all have joined.
type JobInfo struct {
	JobID string
	// Names are the names of all nodes.
	Names []string
	// Salt is the input from which every node derives this job's secret, together with the secret of the nodes. So the secret
	// itself is not sent.
	Salt       []byte
	MasterPort int
	Check      bool `json:",omitempty"` // the ranks check their calls
	Report     bool `json:",omitempty"` // the nodes send the coordinator what a report needs
	// Heartbeat is how long a node or rank may be silent before it is lost.
	Heartbeat time.Duration
	// Grace and FailureGrace are those of the coordinator's command line.
	Grace, FailureGrace time.Duration
	// Forwarding says how the nodes forward their output to the coordinator. Nil: each ibrun writes
	// the output of its node itself.
	Forwarding *Forwarding `json:",omitempty"`
	// Started says how the nodes run their ranks that the coordinator has started. Nil: a user has
	// started every node, with the same command line.
	Started *StartedJob `json:",omitempty"`
}

// StartedJob is what the coordinator has decided for the nodes that it has started.
type StartedJob struct {
	// Programs are the files of the programs of the command line.
	Programs []ProgramFile
	// Masters are the addresses of the nodes, and Ports a port of each that was free when it joined, for programs that connect
	// to the host of rank 0.
	Masters []string
	Ports   []int
}

// ProgramFile is the file of a program.
type ProgramFile struct {
	Path Text // absolute, at the coordinator
	// Built says that ibrun has built it from Go source.
	Built bool `json:",omitempty"`
	// SHA256 is the hash of the file, if a node that has not the same one gets a copy. Empty: the node must have a file of that
	// name.
	SHA256 []byte `json:",omitempty"`
	Size   int64  `json:",omitempty"` // with SHA256, in bytes
}

// FileChunk is a part of the file of a program. The chunks of a file are sent in order. An empty file has one.
type FileChunk struct {
	Program int    // index of the program in the command line
	Data    []byte `json:",omitempty"`
	Err     string `json:",omitempty"` // why the coordinator cannot send the file
}

// Outcome is the exit code of the job and the reason for it, as the coordinator determined them.
type Outcome struct {
	Code     int
	Messages []message.Message `json:",omitempty"`
	// Repeated is a message that repeats the end of the standard error of a node; nil: none.
	Repeated *Repeated `json:",omitempty"`
}

// Repeated is a message of an [Outcome].
type Repeated struct {
	Message int // index in Messages
	Node    int
}

// NewOutcome returns the outcome of a job that has failed for this reason.
func NewOutcome(code int, m message.Message) *Outcome {
	m.Level = slog.LevelError
	return &Outcome{Code: code, Messages: []message.Message{m}}
}

// Lines returns all messages as lines of text.
func (o *Outcome) Lines() (lines []string) {
	for i := range o.Messages {
		lines = append(lines, o.Messages[i].Lines()...)
	}
	return lines
}

// MessagesOn returns the messages that a node prints: all but the one that repeats the end of its standard error.
func (o *Outcome) MessagesOn(node int) []message.Message {
	r := o.Repeated
	if r == nil || r.Node != node || r.Message < 0 || r.Message >= len(o.Messages) {
		return o.Messages
	}
	return slices.Concat(o.Messages[:r.Message], o.Messages[r.Message+1:])
}
