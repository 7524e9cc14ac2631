package coll

import (
	"testing"

	"github.com/ibrun/ibrun/internal/schematest"
)

func TestSchema(t *testing.T) {
	schematest.Compare(t, "tune", "the file that ibrun bench tune writes, for IBRUN_COLLECTIVES", file{})
}
