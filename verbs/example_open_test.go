//go:build unix

package verbs_test

import (
	"os"

	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// openDevice opens a simulated device, or with IBRUN_LIVE, as in a guest, the first RDMA device with an active port.
func openDevice() (*verbs.Context, error) {
	if os.Getenv("IBRUN_LIVE") == "" {
		return verbstest.NewSimulatedNetwork().Open("sim0")
	}
	return verbs.Open("", verbs.Options{})
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
