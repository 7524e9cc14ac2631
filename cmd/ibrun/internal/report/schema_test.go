package report

import (
	"testing"

	"github.com/ibrun/ibrun/internal/schematest"
)

func TestSchema(t *testing.T) {
	schematest.Compare(t, "report", "the report of a job, ibrun --report=FILE.json", Report{})
}
