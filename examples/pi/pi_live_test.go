package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/soft-roce/live"
)

// asProgram is an environment variable with which the test program is the program pi.
const asProgram = "IBRUN_TEST_AS_PI"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestLiveJob: a job of two ranks, started by ibrun, computes pi with messages over the device.
func TestLiveJob(t *testing.T) {
	live.Device(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ibrun", "-n", "2", "--transport", "rdma", "--verbose", program)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"pi = 3.141592653589", "rdma among its 2 ranks"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%v, want %q in\n%s", err, want, out)
		}
	}
}
