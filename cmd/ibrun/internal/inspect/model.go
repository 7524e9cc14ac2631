package inspect

import (
	"context"
	"time"
)

// Source tells about the ranks of a job. Any goroutine may call it.
type Source interface {
	// Job is whose ranks they are.
	Job() Job
	// Ranks looks at all of them, ascending, and does not wait for any; for other nodes only a moment.
	Ranks(ctx context.Context) ([]Rank, error)
	// Stacks asks some of them what their goroutines do. Those that have not answered when ctx ends are missing.
	Stacks(ctx context.Context, ranks []int) (map[int]string, error)
}

// Job is a job as its ibrun on one node knows it.
type Job struct {
	// ID is the same on all nodes.
	ID string `json:"job"`
	// Host is this node's name, Node its number among Nodes.
	Host  string `json:"host"`
	Node  int    `json:"node"`
	Nodes int    `json:"nodes"`
	// PID is that of the ibrun.
	PID int `json:"pid"`
	// Size is the number of ranks of the job, Here how many of them are on this node.
	Size int `json:"ranks"`
	Here int `json:"ranks_here"`
	// Command is what it was started with.
	Command []string `json:"command"`
	// Began is when.
	Began time.Time `json:"began"`

	path string // of the socket
}

// State is how far a rank is.
type State string

// The states of a rank.
const (
	Starting  State = "starting"  // it has recorded nothing: it has not initialised, or is a program without package mpi
	Running   State = "running"   // it has initialised
	Finalized State = "finalized" // it lives on
	Stopped   State = "stopped"   // by a signal or a debugger
	Ended     State = "ended"     // there is no such process any more
	Unheard   State = "unheard"   // it is on another node, which has not answered
)

// Rank is what is known of a rank at one moment.
type Rank struct {
	Rank int `json:"rank"`
	// Host is the name of its node, of a job on several.
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid"`
	State State  `json:"state"`
	// Error says why what it records cannot be read.
	Error string `json:"error,omitempty"`
	// CPU is the processor time its process has used, Process the state of that as the kernel tells, a letter, and WaitsIn the
	// kernel's function that it sleeps in, where that is known.
	CPU     float64 `json:"cpu_seconds"`
	Process string  `json:"process,omitempty"`
	WaitsIn string  `json:"waits_in,omitempty"`
	// Quiet is for how long it has been seen to begin and end no operation.
	Quiet float64 `json:"quiet_seconds"`
	// Waits are the operations its goroutines wait in.
	Waits []Wait `json:"waits,omitempty"`
	// Wall is the time since it initialised, MPI that within calls of package mpi, of those that have ended.
	Wall float64 `json:"wall_seconds"`
	MPI  float64 `json:"mpi_seconds"`
	// Calls have ended; messages of BytesOut and BytesIn have gone to others and come from them.
	Calls    uint64 `json:"calls"`
	BytesOut uint64 `json:"bytes_out"`
	BytesIn  uint64 `json:"bytes_in"`
	// Unexpected messages wait for their receives, and Posted receives for their messages.
	Unexpected uint64 `json:"unexpected"`
	Posted     uint64 `json:"posted"`
	// Done of Total is the progress that the program reports; Total is 0 without.
	Done  uint64 `json:"done,omitempty"`
	Total uint64 `json:"total,omitempty"`
}

// Wait is an operation that a goroutine waits in.
type Wait struct {
	// Seq tells it from others of this rank.
	Seq uint64 `json:"seq"`
	Op  string `json:"op"`
	// Collective says that all ranks of a communicator call it. Peer and Tag are then of a message that it consists of, if any.
	Collective bool `json:"collective,omitempty"`
	// Peer is the rank it waits for, -1 for any or none in particular. Tag is -1 for any or none.
	Peer  int    `json:"peer"`
	Tag   int    `json:"tag"`
	Bytes uint64 `json:"bytes"`
	// Seconds is for how long it has been seen.
	Seconds float64 `json:"seconds"`
}
