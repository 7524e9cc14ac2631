//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/soft-roce/live"
)

// TestLiveNetworkNamespace: Soft-RoCE of this kernel works in the initial network namespace only. In another one a job uses TCP
// and says why, and doctor names the reason once, with a remedy.
func TestLiveNetworkNamespace(t *testing.T) {
	live.Nodes(t, 1) // it creates a network namespace
	device := live.Device(t)
	const name = "ibruntest"
	namespace := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v\n%s", args, err, out)
		}
	}
	namespace("netns", "add", name)
	t.Cleanup(func() { namespace("netns", "delete", name) })
	inside := []string{"ip", "netns", "exec", name}
	namespace("-n", name, "link", "set", "lo", "up")
	jobOverTCP(t, inside, device, "network namespace")
	doctorNames(t, inside, device, "network namespace", "--network host")
}

// jobOverTCP runs a job that may use RDMA and TCP. Its messages must arrive over TCP, and it must say why, naming the device.
func jobOverTCP(t *testing.T, before []string, device, why string) {
	t.Helper()
	words := append(before, "ibrun", "-n", "2", "rank", "sum")
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "IBRUN_TRANSPORT=rdma,tcp", "IBRUN_VERBOSE=1")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"rank 1 of 2: the sum is 1", "tcp among its 2 ranks", "TCP is used instead of RDMA", device, why} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%q: %v, want %q in\n%s", words, err, want, out)
		}
	}
}

// doctorNames runs doctor. It must say that the device cannot be opened, why, and what helps, and must not complain about what
// follows from that.
func doctorNames(t *testing.T, before []string, device, why, fix string) {
	t.Helper()
	words := append(before, "ibrun", "doctor")
	out, _ := exec.Command(words[0], words[1:]...).CombinedOutput() // its exit code also depends on other findings
	finding, found := "", false
	for line := range strings.Lines(string(out)) {
		isError := strings.HasPrefix(line, "error")
		if !strings.HasPrefix(line, " ") {
			found = isError && strings.Contains(line, "verbs.open")
		}
		if found {
			finding += line
		} else if isError && strings.Contains(line, device) {
			t.Errorf("doctor reports what follows from another error: %s", line)
		}
	}
	for _, want := range []string{device, why, fix} {
		if !strings.Contains(finding, want) {
			t.Errorf("doctor does not say %q about the device, but\n%s", want, out)
		}
	}
}
