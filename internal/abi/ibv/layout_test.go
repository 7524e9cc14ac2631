package ibv

import (
	"testing"

	"github.com/ibrun/ibrun/internal/abi/layout"
)

func TestLayout(t *testing.T) { layout.Check(t, "infiniband/verbs.h") }
