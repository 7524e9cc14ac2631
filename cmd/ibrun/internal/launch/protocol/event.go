package protocol

import (
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/internal/pmi"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events that an agent sends, with the fields that they use.
const (
	EventStarted    Kind = "started"     // Ranks, PIDs: these ranks run, ascending; no more will be started
	EventNotStarted Kind = "not started" // Rank, Code (of the exit), Text
	EventInit       Kind = "init"        // Rank: it has initialized PMI
	EventFinalize   Kind = "finalize"    // Rank: it may exit from now on
	EventAbort      Kind = "abort"       // Rank, Code, LostPeer, Text
	EventInvalidPMI Kind = "bad pmi"     // Rank, Text: what it has sent on PMI_FD is not PMI
	EventFailure    Kind = "fault"       // Code, Text: why this agent, or the ibrun of this node, cannot continue
	EventNote       Kind = "note"        // Rank (-1: none), Text, Info: to be shown to the user
	// Rank, Code, Signal, AfterEnd, LostPeer, Text (more about the reason); events of this kind are sent in the order in which
	// the ranks exited
	EventExit   Kind = "exit"
	EventStacks Kind = "stacks" // Rank, Text: the stacks of its goroutines; not forwarded
	// Rank, Code (the exit code unless the job fails otherwise), Text: output of the rank was lost. Without Text the
	// user has closed the reading end.
	EventOutputLost Kind = "output lost"
	EventExchange   Kind = "parcel" // Exchange: from the PMI server
	// Rank, Text (its last output), Shown, PIDs (processes that could not be killed), Output, Linger: the agent exits
	EventDone Kind = "done"
)

// The kinds of events that only the ibrun of another node sends to the coordinator, in addition to
// those of its agent.
const (
	EventJoin       Kind = "join"   // Join: the first event
	EventSignal     Kind = "signal" // Signal, Again: sent by its user
	EventNodeRecord Kind = "facts"  // NodeRecord: for the report, after the last exit of a rank
	// Rank, Page or Text (why the page cannot be read): for the report, after the last exit of a rank
	EventPage     Kind = "page"
	EventRecorded Kind = "recorded" // Rank, Recorded: before EventDone
	EventInspect  Kind = "look"     // Question or Answer

	EventProgress Kind = "progress" // Progress: the sum over its ranks

	// If the output of this node is forwarded:
	EventOutput     Kind = "output" // Stream (1: standard output, 2: standard error), Data
	EventInputTaken Kind = "taken"  // InputTaken: rank 0 has read that much of what Order.Input has brought
	EventNeedFile   Kind = "file"   // Code: the index of a program whose file this node needs
)

// Event is sent by an agent to ibrun, and forwarded to the coordinator. If the stream ends before
// EventDone, the sender has died.
type Event struct {
	Kind     Kind
	Time     int64                `json:",omitempty"` // nanoseconds since 1970
	Rank     int                  `json:",omitempty"`
	Code     int                  `json:",omitempty"`
	Signal   int                  `json:",omitempty"`
	LastCall string               `json:",omitempty"`     // of a rank that has exited, such as "it was in Recv from rank 3"
	AfterEnd bool                 `json:"Told,omitempty"` // the agent had been ordered to end the ranks before
	LostPeer bool                 `json:",omitempty"`     // the rank had noticed that another process of the job is gone
	Again    bool                 `json:",omitempty"`     // the user of this node has asked the job to end before
	Text     string               `json:",omitempty"`
	Info     bool                 `json:",omitempty"` // it is about what the rank does, and no warning
	Shown    int                  `json:",omitempty"` // how many bytes Text takes at the end of standard error; 0: it is not there
	Ranks    []int                `json:",omitempty"`
	PIDs     []int                `json:",omitempty"`
	Output   []string             `json:",omitempty"` // which output was not forwarded, and why
	Linger   time.Duration        `json:",omitempty"` // how long the metrics of another node may outlast the job
	Exchange *pmi.ExchangeMessage `json:"Parcel,omitempty"`
	Join     *Join                `json:",omitempty"`

	NodeRecord *report.Node    `json:"Facts,omitempty"`
	Page       []byte          `json:",omitempty"` // as perfmem.Memory.Pack returns it
	Recorded   *RecordingChunk `json:",omitempty"`
	Question   *Question       `json:",omitempty"`
	Answer     *Answer         `json:",omitempty"`
	Progress   *Progress       `json:",omitempty"`
	Stream     int             `json:",omitempty"`
	Data       []byte          `json:",omitempty"`
	InputTaken *InputTaken     `json:",omitempty"`
}

// Join describes a node that wants to take part in the job.
type Join struct {
	Name    string // of the node
	Command string `json:"Words"` // the beginning of its command line, for messages
	Hash    string // of the whole command line
	Port    int    // a port of its host that is free
}

// RecordingChunk is a part of the compressed trace or profile of a rank. The chunks of a rank are sent in order, its trace
// before its profile.
type RecordingChunk struct {
	Profile bool   `json:",omitempty"`
	Data    []byte // all chunks of one rank and kind together are one gzip stream
}
