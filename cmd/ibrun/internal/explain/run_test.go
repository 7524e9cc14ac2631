package explain

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi/explain"
)

// call runs the command and returns its output.
func call(args ...string) (code int, stdout, stderr string) {
	var out, failed bytes.Buffer
	code = Main(args, &out, &failed)
	return code, out.String(), failed.String()
}

// TestNoInline: a device that grants no inline messages is not one of which that is unknown.
func TestNoInline(t *testing.T) {
	for _, c := range []struct{ unusable, want string }{{"", "inline  0 "}, {"no device", "inline  unknown "}} {
		var b strings.Builder
		err := printPath(&b, explain.Path{Unusable: c.unusable, Limits: []explain.Limit{{Name: "inline", Source: "device dev0"}}})
		if err != nil || !strings.Contains(b.String(), c.want) {
			t.Errorf("%v, want %q in\n%s", err, c.want, &b)
		}
	}
}

// TestText: the output has each transport with its limits, and a line for each size.
func TestText(t *testing.T) {
	code, out, failed := call("8,1M", "--transport", "shm,rdma,tcp")
	if code != 0 || failed != "" {
		t.Fatalf("%d, %s", code, failed)
	}
	for _, want := range []string{
		"shm: ranks of one node\n", "the first messages; more than 32768 bytes take the protocol that proves to be the fastest",
		"rdma: ranks of different nodes\n",
		// p: ranks of different nodes without RDMA", "IBRUN_SHM_STREAM", "IBRUN_SHM_RING", "stores  fastest, or cached where",
		// "IBRUN_RDMA_EAGER", "IBRUN_TCP_EAGER",
		"change it with IBRUN_TCP_EAGER or mpi.Thresholds.TCPEager", "IBRUN_RDMA_PIECE or mpi.Thresholds.RDMAPiece",
		"eager inline", "shared, 2 pieces", "traffic class  0 ", "IBRUN_RDMA_TRAFFIC_CLASS", "timeout        14 (67.1ms)", "P_Key",
		"heartbeat      15s ", "service level", "path MTU", "retries", "rails", "paths", "devices", "window", "pool",
		"checksum    on between machines",
		"encryption  off", "poll ", "GID index",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if small, large := strings.Count(out, "\n  8 B "), strings.Count(out, "\n  1 MiB "); small != 3 || large != 3 {
		t.Errorf("%d and %d lines for the sizes in\n%s", small, large, out)
	}
}

func TestJSON(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "tcp")
	t.Setenv("IBRUN_TCP_EAGER", "1000")
	code, out, failed := call("--json", "1000-1001")
	var paths []explain.Path
	if err := json.Unmarshal([]byte(out), &paths); code != 0 || err != nil {
		t.Fatalf("%d, %v, %s", code, err, failed)
	}
	if len(paths) != 1 || paths[0].Transport != "tcp" || len(paths[0].Messages) != 2 {
		t.Fatalf("%+v", paths)
	}
	if m := paths[0].Messages; m[0].Protocol != "eager" || m[1].Protocol != "read" || !strings.Contains(m[1].Why, "1000 bytes") {
		t.Errorf("%+v", m)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		words string
		code  int
		why   string
	}{
		{"", exitUsage, "want the sizes"}, {"1 2", exitUsage, "unknown collective"}, {"1X", exitUsage, "invalid size"},
		{"8 --colour", exitUsage, "colour"}, {"8 --transport tpc", exitFailed, "unknown transport"}, {"8M-1", exitUsage, "backwards"},
	} {
		if code, out, failed := call(strings.Fields(c.words)...); code != c.code || out != "" || !strings.Contains(failed, c.why) {
			t.Errorf("%q: %d, %q, %q", c.words, code, out, failed)
		}
	}
	t.Setenv("IBRUN_RDMA_WINDOW", "many")
	if code, _, failed := call("8"); code != exitFailed || !strings.Contains(failed, "IBRUN_RDMA_WINDOW") {
		t.Errorf("%d, %s", code, failed)
	}
	page := Page()
	for _, help := range []string{"help", "-h", "--help"} {
		if code, out, _ := call(help); code != 0 || out != page.Help() {
			t.Errorf("%s: %d, %s", help, code, out)
		}
	}
}

// TestCollectives: there is a line for each collective, number of ranks and size, with the algorithms and why they are selected.
func TestCollectives(t *testing.T) {
	code, out, failed := call("allreduce,alltoall", "8,1M", "--ranks", "2,8")
	if code != 0 || failed != "" {
		t.Fatalf("%d, %s", code, failed)
	}
	for _, want := range []string{"allreduce", "shared memory", "direct copy", "Rabenseifner", "(a power of two of ranks)",
		"(up to 16384 bytes)", "recursive doubling", "scattered", "(up to 2 ranks)", "(up to 512 bytes, from 8 ranks)",
		"with fewer cores", "on several NUMA nodes", "several on each node", "two-level"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if n := strings.Count(out, "ranks  "); n != 8 {
		t.Errorf("%d lines for the numbers of ranks in\n%s", n, out)
	}
	code, out, failed = call("--json", "barrier", "0")
	var all []explain.Collective
	err := json.Unmarshal([]byte(out), &all)
	if err != nil || code != 0 || len(all) != 4 || all[3].Apart.Name != "dissemination" ||
		all[3].Immediate.Name != "shared memory" {
		t.Errorf("%d, %v, %v\n%s%s", code, err, all, out, failed)
	}
	_, out, failed = call("--json", "--ranks", "2,8", "bcast", "8,1M")
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 4 || all[0].Immediate.Name != "shared memory" ||
		all[1].Immediate != all[1].Apart || all[3].Immediate.Name != "direct copy" {
		t.Errorf("%v, %v\n%s%s", err, all, out, failed)
	}
	_, out, failed = call("--json", "--ranks", "2,64", "reduce", "8")
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 2 || all[0].OnNUMANodes != all[0].OnNode ||
		all[1].OnNUMANodes != (explain.Algorithm{Name: "shared memory, two-level", When: "from 16 ranks"}) {
		t.Errorf("%v, %v\n%s%s", err, all, out, failed)
	}
	for _, line := range []string{"allsum 8", "allreduce 8 --ranks 0", "allreduce x", "allreduce 8 9"} {
		args := strings.Fields(line)
		if code, out, failed := call(args...); code == 0 || out != "" || failed == "" {
			t.Errorf("%v: %d, %s%s", args, code, out, failed)
		}
	}
}
