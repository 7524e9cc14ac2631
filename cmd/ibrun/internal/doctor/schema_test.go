package doctor

import (
	"testing"

	"github.com/ibrun/ibrun/internal/schematest"
)

func TestSchema(t *testing.T) {
	schematest.Compare(t, "doctor", "what ibrun doctor --json prints", Report{})
}
