package inspect

import (
	"testing"

	"github.com/ibrun/ibrun/internal/schematest"
	"github.com/ibrun/ibrun/perf/jobs"
)

func TestSchema(t *testing.T) {
	schematest.Compare(t, "ps", "what ibrun ps --json prints", []jobs.Job{})
	schematest.Compare(t, "hang", "what ibrun hang --json prints", View{})
	schematest.Compare(t, "top", "what ibrun top --json prints for each interval", Table{})
}
