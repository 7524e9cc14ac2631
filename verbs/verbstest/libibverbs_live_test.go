//go:build linux && !static

package verbstest_test

import (
	"testing"

	"github.com/ibrun/ibrun/verbs/verbstest"
)

func TestLiveLibibverbs(t *testing.T) { verbstest.Run(t, openLive(t, "libibverbs")) }
