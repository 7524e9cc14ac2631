//go:build !linux

package launch

import (
	"fmt"
	"os"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
)

func supported() error {
	return fail(codeFailed, "starting ranks needs Linux (pidfd, subreaper, /proc); here package mpi/mpitest runs them as goroutines")
}

// Agent says that there are no agents on this system.
func Agent() int {
	fmt.Fprintf(os.Stderr, "ibrun: %v\n", supported())
	return codeFailed
}

func checkLimits(int) error { return supported() }

func runCoordinator(*cluster, layout, *task, *cli.Options, Streams) (int, error) {
	return 0, supported()
}

func runWorker(*cluster, layout, *task, *cli.Options, Streams) (int, error) { return 0, supported() }
