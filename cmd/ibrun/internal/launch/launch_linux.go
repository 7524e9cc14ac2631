package launch

import (
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/agent"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

func supported() error { return nil }

// Agent runs the agent of a node and returns its exit code: see package agent.
func Agent() int { return agent.Main() }

func runJob(c *coordinator.Cluster, where coordinator.Layout, t *protocol.Task, o *cli.Options, s Streams) (int, error) {
	return coordinator.RunJob(c, where, t, o, s)
}
