package protocol

import (
	"slices"

	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// Task describes what one agent starts.
type Task struct {
	JobID  string
	Secret auth.Key
	Host   string
	Node   int // number of this node
	Nodes  int // how many there are
	// FirstNode is the number of the first node with ranks: 1 if node 0 has none.
	FirstNode int
	Mapping   string          // which rank is on which node, as PMI_process_mapping
	Size      int             // ranks of the whole job
	Psets     []ranklink.Pset `json:",omitempty"` // defined by the user
	Ranks     []RankTask      // ascending
	Programs  []ProgramTask
	Env       Words // the environment of all ranks
	Label     bool
	Pages     bool   // the agent inherits memory in which the ranks record (package perfmem)
	Trace     bool   // ranks record every operation
	Profile   bool   // ranks record profiles
	Output    string // pattern of file names for the output of ranks, or empty
	// ShowPartial says that the agent's standard output, or error, is forwarded to a terminal.
	ShowPartial [2]bool
}

// LocalIndex returns the index of a rank of this node in Ranks, or -1.
func (t *Task) LocalIndex(rank int) int {
	return slices.IndexFunc(t.Ranks, func(r RankTask) bool { return r.Rank == rank })
}

// RankTask describes one rank to start.
type RankTask struct {
	Rank           int
	Program        int      // index into Programs
	PUs            []int    // processors to bind it to; nil: all that the agent may use
	Memory         []int    // preferred NUMA nodes; nil: the kernel's default policy
	Devices        []string `json:",omitempty"` // preferred RDMA devices
	Env            Words    `json:",omitempty"` // variables that the user's own take precedence over
	Locality       ranklink.Locality
	Oversubscribed bool  // its processors have more ranks than processors
	Args           Words // the command: that of the program, or of a debugger followed by that of the program
	Path           Text
}

// ProgramTask is what the ranks of one program have in common.
type ProgramTask struct {
	Ranks int // its ranks on all nodes
	Dir   Text
	Env   Words
}

// ProgramOf returns the index of the program that a rank runs.
func (t *Task) ProgramOf(rank int) (i int) {
	for rank >= t.Programs[i].Ranks {
		rank -= t.Programs[i].Ranks
		i++
	}
	return i
}
