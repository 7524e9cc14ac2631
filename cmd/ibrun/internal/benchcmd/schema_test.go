package benchcmd

import (
	"testing"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/internal/schematest"
	"github.com/ibrun/ibrun/mpi/simulate"
)

func TestSchema(t *testing.T) {
	schematest.Compare(t, "bench", "a line of ibrun bench --json: a figure, or a comparison", bench.Result{}, line{})
	schematest.Compare(t, "simulate", "a line of ibrun bench simulate --json: a simulation, or with --compare a comparison",
		simulate.Result{}, comparedRun{})
}
