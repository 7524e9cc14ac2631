package launch

import (
	"slices"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// Task is what one agent starts. Between ibrun and agent everything is JSON, one value after the other.
type Task struct {
	JobID    string
	Secret   auth.Key
	Host     string
	Node     int             // number of this node
	Nodes    int             // how many there are
	Mapping  string          // which rank is on which node, as PMI tells it
	Size     int             // ranks of the whole job
	Psets    []ranklink.Pset `json:",omitempty"` // that the user has defined
	Ranks    []RankTask      // ascending
	Programs []ProgramTask
	Env      []string // of all ranks
	Label    bool
	Pages    bool   // the agent inherits memory in which the ranks record what they do
	Trace    bool   // and write down every operation
	Profile  bool   // and take profiles
	Output   string // pattern of files, or empty
}

// LocalIndex is the position of a rank of this node in Ranks.
func (t *Task) LocalIndex(rank int) int {
	return slices.IndexFunc(t.Ranks, func(r RankTask) bool { return r.Rank == rank })
}

// RankTask is one rank.
type RankTask struct {
	Rank    int
	Program int      // index into Programs
	PUs     []int    // nil: all that the agent may use
	Memory  []int    // NUMA nodes to take memory from first; nil: as the kernel does
	Devices []string `json:",omitempty"` // RDMA devices to take first
	Env     []string `json:",omitempty"` // unless the user gives these variables
	Home    ranklink.Home
	Crowded bool     // there are more ranks on its processors than these are
	Args    []string // what is executed: the program's own, or a debugger's with the program's behind it
	Path    string
}

// ProgramTask is what the ranks of one program share.
type ProgramTask struct {
	Ranks int // how many there are in the whole job
	Dir   string
	Env   []string
}

// Order goes from ibrun to its agent, and from node 0 to the other nodes. Exactly one field is set. The end of the
// stream means that who gave the orders has died.
type Order struct {
	Start    *Task       `json:",omitempty"` // only to an agent, and first
	Signal   int         `json:",omitempty"` // pass on to all ranks
	End      *EndOrder   `json:",omitempty"`
	Parcel   *pmi.Parcel `json:",omitempty"` // for the PMI server
	Stacks   []int       `json:",omitempty"` // ranks that are to tell what their goroutines do; only to an agent
	Bar      *Progress   `json:",omitempty"` // to be drawn; only to an agent
	Question *Question   `json:",omitempty"` // only to a node, as is Answer
	Answer   *Answer     `json:",omitempty"`

	Welcome *Welcome `json:",omitempty"`        // only to a node, and first
	Outcome *Outcome `json:"Verdict,omitempty"` // only to a node, and last
}

// Question is what node 0 asks another node, or that node 0: what all ranks do that the other can tell of, or what the goroutines
// of some of them do.
type Question struct {
	ID      uint64        // by who asks
	Stacks  []int         `json:",omitempty"`
	Timeout time.Duration `json:"Patience"` // for how long the answer is waited for, or a little longer
}

// Answer is an answer, or a part of one.
type Answer struct {
	ID     uint64         // of the question
	Ranks  []inspect.Rank `json:",omitempty"`
	Stacks map[int]string `json:",omitempty"` // by rank
	More   bool           `json:",omitempty"` // other parts follow
}

// EndOrder tells an agent to end its ranks and then itself.
type EndOrder struct {
	Grace        time.Duration // between SIGTERM and SIGKILL; 0: SIGKILL at once
	LastOutputOf int           `json:"Tail"` // the rank whose last output is wanted; -1: none
	// Output is how long the ranks' output may take to be passed on once they are dead. 0: as long as it needs.
	OutputTimeout time.Duration `json:"Output,omitempty"`
}

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
	EventExit       Kind = "exit"        // Rank, Code, Signal, Told; events of this kind come in the order in which the ranks died
	EventStacks     Kind = "stacks"      // Rank, Text: what its goroutines do; goes no further than the agent's ibrun
	EventParcel     Kind = "parcel"      // Parcel: from the PMI server
	EventRecorded   Kind = "recorded"    // Rank, Recorded: only to node 0, before evDone
	EventDone       Kind = "done"        // Rank, Text (its tail), PIDs (what could not be killed), Output: the agent ends
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
	Time     int64       `json:",omitempty"` // nanoseconds since 1970
	Rank     int         `json:",omitempty"`
	Code     int         `json:",omitempty"`
	Signal   int         `json:",omitempty"`
	AfterEnd bool        `json:"Told,omitempty"` // the agent had told the ranks to end before
	Text     string      `json:",omitempty"`
	Ranks    []int       `json:",omitempty"`
	PIDs     []int       `json:",omitempty"`
	Output   []string    `json:",omitempty"` // what was not passed on, and why
	Cgroup   string      `json:",omitempty"`
	Parcel   *pmi.Parcel `json:",omitempty"`
	Join     *Join       `json:",omitempty"`

	NodeRecord *report.Node    `json:"Facts,omitempty"`
	Page       []byte          `json:",omitempty"` // as packPage makes it
	Recorded   *RecordingChunk `json:",omitempty"`
	Question   *Question       `json:",omitempty"`
	Answer     *Answer         `json:",omitempty"`
	Progress   *Progress       `json:",omitempty"`
}
