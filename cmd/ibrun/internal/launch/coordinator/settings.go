package coordinator

import (
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
)

// DefaultJoinTimeout is how long the nodes wait for each other unless the user says it.
const DefaultJoinTimeout = time.Minute

// JoinSettings say how this node finds the other nodes of its job, and what it tells them about it.
type JoinSettings struct {
	// Name is the name of this node.
	Name string
	// Node is the number of this node, from 0, and Nodes is how many nodes the job has. With Nodes
	// 0 or 1 there is no other node, and only Heartbeat and Check matter.
	Node, Nodes int
	// Rendezvous is the address, host:port, where the coordinator listens. It is not used if the
	// coordinator has started the other nodes: see [Peers].
	Rendezvous string
	// SecretFile is the file with the secret by which the nodes authenticate each other. It is not
	// read if [Peers] has a secret.
	SecretFile string
	// Encrypt makes the nodes encrypt what they send each other.
	Encrypt bool
	// Timeout is how long the nodes wait for each other. It is positive.
	Timeout time.Duration
	// Heartbeat is how long a node may be silent before it is lost. The value of the coordinator
	// applies to the job.
	Heartbeat time.Duration
	// Command must be the same at all nodes.
	Command Command
	// Report makes the nodes send the coordinator what a report needs, and Check makes the ranks
	// compare their calls. The values of the coordinator apply to the job.
	Report, Check bool
	// Grace and FailureGrace are those of [RunSettings]. The values of the coordinator apply to the
	// job.
	Grace, FailureGrace time.Duration
	// Verbose prints which nodes have joined.
	Verbose bool
}

// Command is the part of the command line that must be the same at all nodes: it decides which rank
// runs what on which node. The nodes compare its texts, so their form must not change.
type Command struct {
	// Mapping is the flags that map ranks to nodes: see [placement.Policy.NodeMapping].
	Mapping  string
	Programs []Program
	Psets    []Pset
}

// Program is the words of a program, and how many ranks run it.
type Program struct {
	Ranks int
	Args  []string
}

// Pset is a process set that the user defines, with its ranks as a list such as "0,2-3".
type Pset struct{ Name, Ranks string }

// RunSettings say how a job runs after its nodes have joined, and what is written about it.
type RunSettings struct {
	// Timeout limits the time that the job may run. 0: no limit.
	Timeout time.Duration
	// Grace is how long ranks may run on after a signal of the user or Timeout has asked them to
	// end, FailureGrace after the job has failed. Then they are killed. 0: they are killed
	// immediately.
	Grace, FailureGrace time.Duration
	// Report says whether a report is made.
	Report ReportSettings
	// Recordings are the files of traces and profiles.
	Recordings monitor.RecordingFiles
	// Monitor says what the monitor of this node does.
	Monitor monitor.Settings
	// Verbose prints where ranks run, and how long the job took.
	Verbose bool
}

// ReportSettings say whether a report is printed at the end of the job, and to which files it goes.
type ReportSettings struct {
	Enabled bool
	// Commands are the words of each program.
	Commands [][]string
	// Files are names that end in .html or .json. Empty: two files named after the job in the
	// working directory, or none if Bare is set.
	Files []string
	Bare  bool
}
