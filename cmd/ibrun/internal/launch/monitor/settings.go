package monitor

import (
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/exporter"
)

// Settings say what the monitor of a node serves, and what it watches for.
type Settings struct {
	// Command is the words of all programs of the job, with ":" between programs. ibrun ps shows
	// it.
	Command []string
	// DeadlockReport is how long all ranks must have waited for each other before that is reported.
	// 0: never. Only the monitor of the coordinator reports it.
	DeadlockReport time.Duration
	// EndDeadlocks makes a deadlock end the job.
	EndDeadlocks bool
	// Heartbeat is how long a node may be silent before it is lost. In that time a message between
	// ranks arrives, or its receiver is lost, unless the network is slow.
	Heartbeat time.Duration
	// Metrics says where the metrics of the ranks of this node are served. Without an address they
	// are not.
	Metrics exporter.Options
}

// RecordingFiles are the names of the files that a job writes at its end from what its ranks have
// recorded. An empty name means that there is no such file.
type RecordingFiles struct{ Profile, Trace string }
