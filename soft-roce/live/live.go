package live

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Variables that a guest sets.
const (
	liveVariable  = "IBRUN_LIVE"
	nodeVariable  = "IBRUN_VM_NODE"
	addrsVariable = "IBRUN_VM_ADDRS"
)

// Device returns the name of the first RDMA device of this machine. It skips the test if IBRUN_LIVE is not set. It fails the test
// if IBRUN_LIVE is set and there is no device.
func Device(t testing.TB) string {
	t.Helper()
	requireNodes(t, 1)
	devices, err := os.ReadDir("/sys/class/infiniband")
	if err != nil || len(devices) == 0 {
		t.Fatalf("%s is set, but there is no RDMA device: %v", liveVariable, err)
	}
	return devices[0].Name()
}

// NoNAK is like Device. It also fails the test if the device sends or receives an RNR NAK (receiver not ready) while the
// test runs. It omits this check if the device is not Soft-RoCE, because the counters of other devices have other names.
func NoNAK(t testing.TB) string {
	t.Helper()
	device := Device(t)
	count := func() (sum int, ok bool) {
		for _, name := range []string{"rcvd_rnr_err", "send_rnr_err"} {
			text, err := os.ReadFile("/sys/class/infiniband/" + device + "/ports/1/hw_counters/" + name)
			if err != nil && os.Getenv(nodeVariable) == "" {
				t.Logf("not counted: %v", err)
				return 0, false
			}
			n, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		return sum, true
	}
	if before, ok := count(); ok {
		t.Cleanup(func() {
			if after, _ := count(); after != before {
				t.Errorf("%d RNR NAKs: a receiver was not ready", after-before)
			}
		})
	}
	return device
}

// Node is a guest.
type Node struct {
	// Number is the number of the node. The test runs on node 0.
	Number int
	// Addr is its IPv4 address on the wire.
	Addr string
}

// Nodes returns all guests. It skips the test if there are fewer than atLeast: outside of guests, or if atLeast is 2 and
// IBRUN_LIVE is 1.
func Nodes(t testing.TB, atLeast int) []Node {
	t.Helper()
	requireNodes(t, atLeast)
	addrs := strings.Split(os.Getenv(addrsVariable), ",")
	if os.Getenv(nodeVariable) != "0" || len(addrs) < atLeast || addrs[0] == "" {
		t.Fatalf("%s is %q, %s is %q and %s is %q: a guest with %d nodes sets them differently", liveVariable,
			os.Getenv(liveVariable), nodeVariable, os.Getenv(nodeVariable), addrsVariable, os.Getenv(addrsVariable), atLeast)
	}
	var nodes []Node
	for i, addr := range addrs {
		nodes = append(nodes, Node{Number: i, Addr: addr})
	}
	return nodes
}

// Command returns a command that runs a program on that node. Its output is unchanged. Killing the command kills the program.
func (n Node) Command(name string, args ...string) *exec.Cmd {
	if n.Number == 0 {
		return exec.Command(name, args...)
	}
	return exec.Command("vm", append([]string{"exec", "-raw", strconv.Itoa(n.Number), name}, args...)...)
}

// requireNodes skips the test if there are fewer nodes.
func requireNodes(t testing.TB, atLeast int) {
	t.Helper()
	const run = "go run github.com/ibrun/ibrun/soft-roce/vm -nodes %d -- go test"
	switch text := os.Getenv(liveVariable); {
	case text == "":
		t.Skipf("needs an RDMA device: "+run, atLeast)
	case text != "1" && text != "2":
		t.Fatalf("%s=%s: must be the number of nodes, 1 or 2", liveVariable, text)
	case text == "1" && atLeast == 2:
		t.Skipf("needs two nodes: "+run, atLeast)
	}
}
