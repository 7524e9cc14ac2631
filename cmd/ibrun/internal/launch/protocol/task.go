package protocol

import (
	"slices"

	"github.com/ibrun/ibrun/internal/auth"
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

// ProgramOf is the one that a rank runs.
func (t *Task) ProgramOf(rank int) (i int) {
	for rank >= t.Programs[i].Ranks {
		rank -= t.Programs[i].Ranks
		i++
	}
	return i
}
