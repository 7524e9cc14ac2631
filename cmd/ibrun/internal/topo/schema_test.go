package topo

import (
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/schematest"
)

func TestSchema(t *testing.T) {
	schematest.Compare(t, "topo", "what ibrun topo --json prints", hw.Topology{})
}
