//go:build linux

package mpi_test

import (
	"os/exec"
	"testing"

	"github.com/ibrun/ibrun/soft-roce/live"
)

// TestLiveSpread runs the tests of this package with the ranks on two guests, connected by RDMA.
func TestLiveSpread(t *testing.T) {
	nodes := live.Nodes(t, 2)
	spread(t, "tcp", nodes[0].Addr+":0", func(k int, env, args []string) *exec.Cmd {
		words := append(append(env, "IBRUN_TRANSPORT=rdma", executable(t)), args...)
		return nodes[k].Command("env", words...)
	})
}
