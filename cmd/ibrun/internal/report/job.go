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
	// Began is when its ranks were started, and Wall the time until the last of them ended.
	Began time.Time
	Wall  time.Duration
	// Code is the exit code, and Failure why it is not 0, in lines.
	Code    int
	Failure []string
	// Nodes are indexed by node number. A node that reported nothing has only a name and ranks.
	Nodes []Node
	// Ranks has the records, indexed by rank.
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

// Node describes a machine that ran ranks, as its ibrun reported it.
type Node struct {
	Name string `json:"name"`
	// Version is that of ibrun there, Kernel that of the system, and Processor its model.
	Version   string `json:"ibrun,omitempty"`
	Kernel    string `json:"kernel,omitempty"`
	Processor string `json:"processor,omitempty"`
	// PUs is the number of processors that ibrun could use there.
	PUs int `json:"processors,omitempty"`
	// Environment are the variables of [EnvironmentVariables] that are set.
	Environment []Variable `json:"environment"`
	// Ports are the ports of RDMA devices and the network interfaces that are up.
	Ports []Port `json:"ports"`
	// Ranks are the ranks on the node, ascending.
	Ranks []Place `json:"ranks"`
}

// Variable is one of the environment.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Place describes where a rank runs.
type Place struct {
	Rank    int `json:"rank"`
	Program int `json:"program"` // an index
	// Bound are the processors that it is bound to, as a list such as 0-3,8. Empty: it is not bound.
	Bound string `json:"bound,omitempty"`
	// Memory are the NUMA nodes that its memory comes from first, as a list. Empty: any.
	Memory string `json:"memory,omitempty"`
	// Device is the RDMA device that it prefers.
	Device string `json:"device,omitempty"`
	// Shares reports whether more ranks than processors share its processors.
	Shares bool `json:"shares,omitempty"`
}

// Rank is what a rank recorded.
type Rank struct {
	// Snapshot is nil if there is no record. Err is the reason, if it is known.
	Snapshot *perf.Snapshot
	Err      error
}
