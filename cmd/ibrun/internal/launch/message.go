package launch

import (
	"time"

	"github.com/ibrun/ibrun/internal/job"
)

// task is what one agent starts. Between ibrun and agent everything is JSON, one value after the other.
type task struct {
	JobID    string
	Secret   job.Secret
	Host     string
	Size     int  // ranks of the whole job
	Crowded  bool // there are more of them than processors
	Ranks    []rankTask
	Programs []programTask
	Env      []string // of all ranks
	Label    bool
	Output   string // pattern of files, or empty
}

// rankTask is one rank.
type rankTask struct {
	Rank    int
	Program int // index into Programs
	PUs     []int
	Args    []string // what is executed: the program's own, or a debugger's with the program's behind it
	Path    string
}

// programTask is what the ranks of one program share.
type programTask struct {
	Dir string
	Env []string
}

// order goes from ibrun to an agent. Exactly one field is set. The end of the stream means that ibrun has died.
type order struct {
	Start  *task   `json:",omitempty"`
	Signal int     `json:",omitempty"` // pass on to all ranks
	End    *ending `json:",omitempty"`
}

// ending tells an agent to end its ranks and then itself.
type ending struct {
	Grace time.Duration // between SIGTERM and SIGKILL; 0: SIGKILL at once
	Tail  int           // the rank whose last output is wanted; -1: none
}

// kind tells events apart.
type kind string

// The kinds of events, with the fields they use.
const (
	evStarted    kind = "started"     // PIDs, Cgroup: these ranks run, in order, and no more will
	evNotStarted kind = "not started" // Rank, Code (of the exit), Text
	evInit       kind = "init"        // Rank: it has begun to speak PMI
	evFinalize   kind = "finalize"    // Rank: it may end from now on
	evAbort      kind = "abort"       // Rank, Code, Text
	evNote       kind = "note"        // Rank, Text: to show to the user
	evExit       kind = "exit"        // Rank, Code, Signal; events of this kind come in the order in which the ranks died
	evDone       kind = "done"        // Text (the tail), PIDs (what could not be killed): the agent ends
)

// event goes from an agent to ibrun. The end of the stream before evDone means that the agent has died.
type event struct {
	Kind   kind
	Rank   int    `json:",omitempty"`
	Code   int    `json:",omitempty"`
	Signal int    `json:",omitempty"`
	Text   string `json:",omitempty"`
	PIDs   []int  `json:",omitempty"`
	Cgroup string `json:",omitempty"`
}
