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

// task is what one agent starts. Between ibrun and agent everything is JSON, one value after the other.
type task struct {
	JobID    string
	Secret   auth.Key
	Host     string
	Node     int             // number of this node
	Nodes    int             // how many there are
	Mapping  string          // which rank is on which node, as PMI tells it
	Size     int             // ranks of the whole job
	Psets    []ranklink.Pset `json:",omitempty"` // that the user has defined
	Ranks    []rankTask      // ascending
	Programs []programTask
	Env      []string // of all ranks
	Label    bool
	Pages    bool   // the agent inherits memory in which the ranks record what they do
	Trace    bool   // and write down every operation
	Profile  bool   // and take profiles
	Output   string // pattern of files, or empty
}

// localIndex is the position of a rank of this node in Ranks.
func (t *task) localIndex(rank int) int {
	return slices.IndexFunc(t.Ranks, func(r rankTask) bool { return r.Rank == rank })
}

// rankTask is one rank.
type rankTask struct {
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

// programTask is what the ranks of one program share.
type programTask struct {
	Ranks int // how many there are in the whole job
	Dir   string
	Env   []string
}

// order goes from ibrun to its agent, and from node 0 to the other nodes. Exactly one field is set. The end of the
// stream means that who gave the orders has died.
type order struct {
	Start    *task       `json:",omitempty"` // only to an agent, and first
	Signal   int         `json:",omitempty"` // pass on to all ranks
	End      *endOrder   `json:",omitempty"`
	Parcel   *pmi.Parcel `json:",omitempty"` // for the PMI server
	Stacks   []int       `json:",omitempty"` // ranks that are to tell what their goroutines do; only to an agent
	Bar      *progress   `json:",omitempty"` // to be drawn; only to an agent
	Question *question   `json:",omitempty"` // only to a node, as is Answer
	Answer   *answer     `json:",omitempty"`

	Welcome *welcome `json:",omitempty"`        // only to a node, and first
	Outcome *outcome `json:"Verdict,omitempty"` // only to a node, and last
}

// question is what node 0 asks another node, or that node 0: what all ranks do that the other can tell of, or what the goroutines
// of some of them do.
type question struct {
	ID      uint64        // by who asks
	Stacks  []int         `json:",omitempty"`
	Timeout time.Duration `json:"Patience"` // for how long the answer is waited for, or a little longer
}

// answer is an answer, or a part of one.
type answer struct {
	ID     uint64         // of the question
	Ranks  []inspect.Rank `json:",omitempty"`
	Stacks map[int]string `json:",omitempty"` // by rank
	More   bool           `json:",omitempty"` // other parts follow
}

// endOrder tells an agent to end its ranks and then itself.
type endOrder struct {
	Grace        time.Duration // between SIGTERM and SIGKILL; 0: SIGKILL at once
	LastOutputOf int           `json:"Tail"` // the rank whose last output is wanted; -1: none
	// Output is how long the ranks' output may take to be passed on once they are dead. 0: as long as it needs.
	OutputTimeout time.Duration `json:"Output,omitempty"`
}

// kind tells events apart.
type kind string

// The kinds of events, with the fields they use.
const (
	evStarted    kind = "started"     // Ranks, PIDs, Cgroup: these ranks run, in order, and no more will
	evNotStarted kind = "not started" // Rank, Code (of the exit), Text
	evInit       kind = "init"        // Rank: it has begun to speak PMI
	evFinalize   kind = "finalize"    // Rank: it may end from now on
	evAbort      kind = "abort"       // Rank, Code, Text
	evNote       kind = "note"        // Rank, Text: to show to the user
	evExit       kind = "exit"        // Rank, Code, Signal, Told; events of this kind come in the order in which the ranks died
	evStacks     kind = "stacks"      // Rank, Text: what its goroutines do; goes no further than the agent's ibrun
	evParcel     kind = "parcel"      // Parcel: from the PMI server
	evRecorded   kind = "recorded"    // Rank, Recorded: only to node 0, before evDone
	evDone       kind = "done"        // Rank, Text (its tail), PIDs (what could not be killed), Output: the agent ends
)

// The kinds of events that only the ibrun of another node sends to node 0, beside its agent's.
const (
	evJoin       kind = "join"   // Join: the first
	evSignal     kind = "signal" // Signal: its user has sent it
	evFailure    kind = "fault"  // Code, Text: why it cannot go on
	evNodeRecord kind = "facts"  // Facts: for the report, behind the last end of a rank
	evPage       kind = "page"   // Rank, Page or Text (why it cannot be read): what a rank has recorded, likewise
	evInspect    kind = "look"   // Question or Answer

	evProgress kind = "progress" // Progress: how far its ranks are together
)

// event goes from an agent to ibrun, and from there to node 0. The end of the stream before evDone means that who
// should have sent that has died.
type event struct {
	Kind     kind
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
	Join     *join       `json:",omitempty"`

	NodeRecord *report.Node    `json:"Facts,omitempty"`
	Page       []byte          `json:",omitempty"` // as packPage makes it
	Recorded   *recordingChunk `json:",omitempty"`
	Question   *question       `json:",omitempty"`
	Answer     *answer         `json:",omitempty"`
	Progress   *progress       `json:",omitempty"`
}
