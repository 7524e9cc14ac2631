package mpi_test

import (
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestFreedRequestsOver is TestFreedRequests, in one of its forms, over other transports than the memory of a process. `make
// transports` runs all forms over them.
func TestFreedRequestsOver(t *testing.T) {
	for _, transport := range []string{"shm,tcp", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			t.Setenv("IBRUN_TRANSPORT", transport)
			t.Setenv("IBRUN_TCP_INTERFACES", "lo")
			mpitest.RunWith(t, 2, freedOptions(), func(p *mpi.Process) error {
				return newFreedRank(p).free(freeings["Free"], noCase, noPreparation)
			})
		})
	}
}
