package verbstest_test

import (
	"testing"

	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// openLive returns a function that opens the device of the guest with a provider.
func openLive(t *testing.T, provider string) verbstest.Open {
	name := live.Device(t)
	return func(tb testing.TB) *verbs.Context {
		tb.Helper()
		ctx, err := verbs.Open(name, verbs.Options{Provider: provider})
		if err != nil {
			tb.Fatal(err)
		}
		return ctx
	}
}

func TestLiveRXE(t *testing.T) { verbstest.Run(t, openLive(t, "rxe")) }
