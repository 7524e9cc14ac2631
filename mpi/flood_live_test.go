//go:build linux

package mpi_test

import (
	"testing"

	"github.com/ibrun/ibrun/soft-roce/live"
)

// TestLiveFlood is TestFlood over RDMA.
func TestLiveFlood(t *testing.T) {
	live.NoNAK(t)
	floods(t, "rdma")
}
