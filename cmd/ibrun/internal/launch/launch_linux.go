package launch

import "github.com/ibrun/ibrun/cmd/ibrun/internal/cli"

func supported() error { return nil }

func runJob(m *Cluster, where Layout, t *Task, o *cli.Options, s Streams) (int, error) {
	return RunJob(m, where, t, o, s)
}
