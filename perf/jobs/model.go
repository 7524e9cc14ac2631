package jobs

import "time"

// Job is a job as its ibrun on this machine knows it. Only jobs that List or Find has returned have working methods.
type Job struct {
	// ID is the same on all nodes.
	ID string `json:"job"`
	// Host is the name of this node, Node its index, and Nodes the number of nodes.
	Host  string `json:"host"`
	Node  int    `json:"node"`
	Nodes int    `json:"nodes"`
	// PID is the process id of ibrun.
	PID int `json:"pid"`
	// Size is the number of ranks of the job, and Here the number of those on this node.
	Size int `json:"ranks"`
	Here int `json:"ranks_here"`
	// Command is the command line of the job.
	Command []string `json:"command"`
	// Began is when the job was started.
	Began time.Time `json:"began"`

	path string // of the socket
}

// State is the state of a rank. It is part of the JSON of ibrun top.
type State string

// The states of a rank.
const (
	Starting    State = "starting"  // it has no record: it has not called Init, or does not use package mpi
	Running     State = "running"   // it has called Init
	Finalized   State = "finalized" // it has called Finalize, and its process still runs
	Stopped     State = "stopped"   // by a signal or a debugger
	Ended       State = "ended"     // its process has exited
	Unreachable State = "unheard"   // it is on another node that has not answered
)

// Rank is a sample of a rank.
type Rank struct {
	Rank int `json:"rank"`
	// Host is the name of its node, if the job has several.
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid"`
	State State  `json:"state"`
	// Error is the reason why its record cannot be read.
	Error string `json:"error,omitempty"`
	// CPU is the processor time that its process has used, in seconds. Process is the letter of the process state in /proc. WaitsIn
	// is the kernel function in which it sleeps, if that is known.
	CPU     float64 `json:"cpu_seconds"`
	Process string  `json:"process,omitempty"`
	WaitsIn string  `json:"waits_in,omitempty"`
	// Quiet is for how many seconds no operation has begun or ended, as seen by the samples that ibrun takes once a second.
	Quiet float64 `json:"quiet_seconds"`
	// Waits are the operations in which its goroutines wait.
	Waits []Wait `json:"waits,omitempty"`
	// Wall is the time since Init, in seconds. MPI is the time within calls of package mpi that have ended, in seconds, added over
	// all goroutines.
	Wall float64 `json:"wall_seconds"`
	MPI  float64 `json:"mpi_seconds"`
	// Calls is the number of calls that have ended. BytesOut and BytesIn count the bytes of messages sent to and received from other
	// ranks. BytesCollective counts the bytes that each rank contributes to collectives and, in a Bcast or a Scatter, gets, also if
	// they move through shared memory, without messages. Persistent collectives do not count.
	Calls           uint64 `json:"calls"`
	BytesOut        uint64 `json:"bytes_out"`
	BytesIn         uint64 `json:"bytes_in"`
	BytesCollective uint64 `json:"bytes_collective"`
	// Long are the messages that it has sent and that are not eager, since the start, by transport, length and protocol.
	Long []LongMessages `json:"long_messages,omitempty"`
	// Sent is the number of messages that it has sent, and of transfers that it has begun, and Arrived the number of those that have
	// arrived or ended: see [perf.Snapshot]. If the sums over all ranks are equal, nothing is on its way. Paused is set if it has
	// not counted for some time.
	Sent    uint64 `json:"messages_sent"`
	Arrived uint64 `json:"messages_arrived"`
	Paused  bool   `json:"paused,omitempty"`
	// Unexpected is the number of stored unexpected messages, and Posted the number of posted receives.
	Unexpected uint64 `json:"unexpected"`
	Posted     uint64 `json:"posted"`
	// Done of Total is the progress that the program reports. Total is 0 if it reports none.
	Done  uint64 `json:"done,omitempty"`
	Total uint64 `json:"total,omitempty"`
}

// LongMessages are messages over one transport with lengths of one class that took one protocol: see [perf.LongTraffic].
type LongMessages struct {
	Transport string `json:"transport"`
	// MaxBytes is the largest length in the class, a power of two; -1 if there is no limit.
	MaxBytes int    `json:"max_bytes"`
	Protocol string `json:"protocol"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// Wait is an operation in which a goroutine waits.
type Wait struct {
	// Seq identifies it among the operations of this rank.
	Seq uint64 `json:"seq"`
	Op  string `json:"op"`
	// Collective is set if all ranks of a communicator call it. Peer and Tag are then those of a message of its algorithm, if any.
	Collective bool `json:"collective,omitempty"`
	// Peer is the rank that it waits for, or -1 for any or no particular one. Tag is -1 for any or none.
	Peer  int    `json:"peer"`
	Tag   int    `json:"tag"`
	Bytes uint64 `json:"bytes"`
	// Where is the source position of the call, if the calls of the job are checked.
	Where string `json:"where,omitempty"`
	// Comm is the name that the program has given to the communicator.
	Comm string `json:"comm,omitempty"`
	// Seconds is for how many seconds samples have seen it.
	Seconds float64 `json:"seconds"`
}
