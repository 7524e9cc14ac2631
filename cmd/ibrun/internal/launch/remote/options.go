package remote

import (
	"os"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
)

// Host is a node that is to be started.
type Host struct {
	Node       int    // its number
	Name, User string // User may be empty
	Group      int    // the component of a heterogeneous Slurm job
}

// Options say what is started, and how.
type Options struct {
	Hosts []Host
	// Program is the path of ibrun. A host that lacks it may have ibrun in its PATH.
	Program string
	// Slurm says that srun starts the nodes; Groups is the number of components of a heterogeneous job, otherwise 0. Agent is
	// the command of the launch agent otherwise, to which host and command are appended. Empty: ssh.
	Slurm  bool
	Groups int
	Agent  []string
	// Lookup returns variables of the environment.
	Lookup func(string) string
	// Timeout limits how long the nodes may take (--join-timeout).
	Timeout time.Duration
	// FailureGrace is how long ranks may run on if the coordinator dies.
	FailureGrace time.Duration
	// Message returns the start message of a node; with Slurm of all nodes, and the number is 0.
	Message func(node int) ([]byte, error)
	// Verbose reports the commands.
	Verbose bool
	// JSON says that ibrun on the hosts prints its messages as JSON.
	JSON bool
}

// Event is news about a node. Exactly one of Ready, Err and Note is set.
type Event struct {
	Node int // its number; 0: several nodes
	// Ready says that the node was started, and how to reach it.
	Ready *Ready
	// Err says why the node cannot be started, or that its command has ended. No further event of the node follows.
	Err *Error
	// Note is a message for the user. Its text is not empty.
	Note *message.Message
}

// Ready are the streams of a node that has its start message. With Slurm they are nil.
type Ready struct {
	In, Out *os.File // the receiver of the event owns them
	// Command is what was run, for messages.
	Command string
	// Ended receives how the command has ended.
	Ended <-chan *Error
}
