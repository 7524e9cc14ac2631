package report

import (
	"time"

	"github.com/ibrun/ibrun/perf"
)

// Job is what is known of a job when it has ended.
type Job struct {
	// ID is the job's name, and Version that of ibrun.
	ID, Version string
	// Programs are in the order of their ranks.
	Programs []Program
	// Began is when its ranks were started, and Wall how long it took until none was left.
	Began time.Time
	Wall  time.Duration
	// Code is the exit code, and Failure why it is not 0, in lines.
	Code    int
	Failure []string
	// Nodes are by number. Of one that has told nothing only the name and the ranks are known.
	Nodes []Node
	// Ranks has what was recorded, by rank.
	Ranks []Rank
}

// Program is one program of a job.
type Program struct {
	// Ranks is how many run it.
	Ranks int `json:"ranks"`
	// Args are its name and arguments, as they were typed.
	Args []string `json:"args"`
	// Go is the version that built it and Library that of this module in it; both are empty for programs that are not Go's.
	Go      string `json:"go,omitempty"`
	Library string `json:"library,omitempty"`
}

// Node is a machine that ran ranks, as it tells of itself.
type Node struct {
	Name string `json:"name"`
	// Version is that of ibrun there, Kernel that of the system, and Processor its model.
	Version   string `json:"ibrun,omitempty"`
	Kernel    string `json:"kernel,omitempty"`
	Processor string `json:"processor,omitempty"`
	// PUs is how many processors ibrun could use there.
	PUs int `json:"processors,omitempty"`
	// Environment are the variables that bear on how a job runs, of those named in docs/report.md.
	Environment []Variable `json:"environment"`
	// Ports are the ports of RDMA devices and the network interfaces that are up.
	Ports []Port `json:"ports"`
	// Ranks are those of the node, ascending.
	Ranks []Place `json:"ranks"`
}

// Variable is one of the environment.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Place is where a rank runs.
type Place struct {
	Rank    int `json:"rank"`
	Program int `json:"program"` // an index
	// Bound are the processors that it is bound to, as a list such as 0-3,8; empty: it is not.
	Bound string `json:"bound,omitempty"`
	// Memory are the NUMA nodes that its memory comes from first, as a list; empty: any.
	Memory string `json:"memory,omitempty"`
	// Device is the RDMA device that it takes first.
	Device string `json:"device,omitempty"`
	// Shares says that there are more ranks on its processors than these are.
	Shares bool `json:"shares,omitempty"`
}

// Rank is what a rank recorded.
type Rank struct {
	// Snapshot is nil if there is none, for the reason Err if that is known.
	Snapshot *perf.Snapshot
	Err      error
}
