package explain

import (
	"testing"

	"github.com/ibrun/ibrun/internal/schematest"
	"github.com/ibrun/ibrun/mpi/explain"
)

func TestSchema(t *testing.T) {
	schematest.Compare(t, "explain", "what ibrun explain --json prints: of sizes, or of collectives", []explain.Path{},
		[]explain.Collective{})
}
