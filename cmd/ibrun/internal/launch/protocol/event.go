package protocol

import (
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/internal/pmi"
)

// Kind tells events apart.
type Kind string

// The kinds of events, with the fields they use.
const (
	EventStarted    Kind = "started"     // Ranks, PIDs, Cgroup: these ranks run, in order, and no more will
	EventNotStarted Kind = "not started" // Rank, Code (of the exit), Text
	EventInit       Kind = "init"        // Rank: it has begun to speak PMI
	EventFinalize   Kind = "finalize"    // Rank: it may end from now on
	EventAbort      Kind = "abort"       // Rank, Code, Text
	EventNote       Kind = "note"        // Rank, Text: to show to the user
	// Rank, Code, Signal, Told; events of this kind come in the order in which the ranks died
	EventExit     Kind = "exit"
	EventStacks   Kind = "stacks"   // Rank, Text: what its goroutines do; goes no further than the agent's ibrun
	EventParcel   Kind = "parcel"   // Parcel: from the PMI server
	EventRecorded Kind = "recorded" // Rank, Recorded: only to node 0, before evDone
	EventDone     Kind = "done"     // Rank, Text (its tail), PIDs (what could not be killed), Output: the agent ends
)

// The kinds of events that only the ibrun of another node sends to node 0, beside its agent's.
const (
	EventJoin       Kind = "join"   // Join: the first
	EventSignal     Kind = "signal" // Signal: its user has sent it
	EventFailure    Kind = "fault"  // Code, Text: why it cannot go on
	EventNodeRecord Kind = "facts"  // Facts: for the report, behind the last end of a rank
	EventPage       Kind = "page"   // Rank, Page or Text (why it cannot be read): what a rank has recorded, likewise
	EventInspect    Kind = "look"   // Question or Answer

	EventProgress Kind = "progress" // Progress: how far its ranks are together
)

// Event goes from an agent to ibrun, and from there to node 0. The end of the stream before evDone means that who
// should have sent that has died.
type Event struct {
	Kind     Kind
	Time     int64                `json:",omitempty"` // nanoseconds since 1970
	Rank     int                  `json:",omitempty"`
	Code     int                  `json:",omitempty"`
	Signal   int                  `json:",omitempty"`
	AfterEnd bool                 `json:"Told,omitempty"` // the agent had told the ranks to end before
	Text     string               `json:",omitempty"`
	Ranks    []int                `json:",omitempty"`
	PIDs     []int                `json:",omitempty"`
	Output   []string             `json:",omitempty"` // what was not passed on, and why
	Cgroup   string               `json:",omitempty"`
	Parcel   *pmi.ExchangeMessage `json:",omitempty"`
	Join     *Join                `json:",omitempty"`

	NodeRecord *report.Node    `json:"Facts,omitempty"`
	Page       []byte          `json:",omitempty"` // as packPage makes it
	Recorded   *RecordingChunk `json:",omitempty"`
	Question   *Question       `json:",omitempty"`
	Answer     *Answer         `json:",omitempty"`
	Progress   *Progress       `json:",omitempty"`
}

// Join is what a node says of itself before it may take part.
type Join struct {
	Name    string // of the node
	Command string `json:"Words"` // the beginning of its command line, to show
	Hash    string // of the whole
}

// RecordingChunk is a piece of what a rank has left, compressed. Pieces of a rank come in order, its trace before its profile.
type RecordingChunk struct {
	Profile bool   `json:",omitempty"`
	Data    []byte // of one rank and kind, all pieces together are one gzip stream
}
