package explain

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi/explain"
)

// call is the command with its output.
func call(args ...string) (code int, stdout, stderr string) {
	var out, failed bytes.Buffer
	code = Main(args, &out, &failed)
	return code, out.String(), failed.String()
}

// TestText: each transport is there with its limits, and a line for each size.
func TestText(t *testing.T) {
	code, out, failed := call("8,1M", "--transport", "shm,rdma,tcp")
	if code != 0 || failed != "" {
		t.Fatalf("%d, %s", code, failed)
	}
	for _, want := range []string{
		"shm: ranks of one node whose cores are near", "far apart", "rdma: ranks of different nodes\n",
		"tcp: ranks of different nodes without RDMA", "IBRUN_SHM_STREAM", "IBRUN_RDMA_EAGER", "IBRUN_TCP_EAGER",
		"IBRUN_TCP_EAGER or mpi.Thresholds.TCPEager changes it", "mpi.Thresholds.RDMAPiece changes it",
		"eager inline", "shared, 16 pieces",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if small, large := strings.Count(out, "\n  8 B "), strings.Count(out, "\n  1 MiB "); small != 4 || large != 4 {
		t.Errorf("%d and %d lines for the sizes in\n%s", small, large, out)
	}
}

func TestJSON(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "tcp")
	t.Setenv("IBRUN_TCP_EAGER", "1000")
	code, out, failed := call("--json", "1000-1001")
	var ways []explain.Path
	if err := json.Unmarshal([]byte(out), &ways); code != 0 || err != nil {
		t.Fatalf("%d, %v, %s", code, err, failed)
	}
	if len(ways) != 1 || ways[0].Transport != "tcp" || len(ways[0].Messages) != 2 {
		t.Fatalf("%+v", ways)
	}
	if m := ways[0].Messages; m[0].Protocol != "eager" || m[1].Protocol != "read" || !strings.Contains(m[1].Why, "1000 bytes") {
		t.Errorf("%+v", m)
	}
}

func TestWrongUse(t *testing.T) {
	for _, c := range []struct {
		words string
		code  int
		why   string
	}{
		{"", exitUsage, "name the sizes"}, {"1 2", exitUsage, "name the sizes"}, {"1X", exitUsage, "no size"},
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
	for _, help := range []string{"help", "-h", "--help"} {
		if code, out, _ := call(help); code != 0 || out != usage {
			t.Errorf("%s: %d, %s", help, code, out)
		}
	}
}
