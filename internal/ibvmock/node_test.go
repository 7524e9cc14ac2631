//go:build linux && !static && (amd64 || arm64)

package ibvmock_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/ibvmock"
)

// TestNode: the programs of a node see its devices, with the values that the library reports, and can open them.
func TestNode(t *testing.T) {
	network := ibvmock.NewNetwork(t)
	var list []string
	for i, p := range ibvmock.Profiles() {
		list = append(list, fmt.Sprintf("dev%d=%s@%d", i, p.Name, i))
	}
	n := network.NewNode("a", strings.Join(list, ","))
	devices := n.Devices()
	for i, p := range ibvmock.Profiles() {
		d := devices[i]
		if len(d.Problems) > 0 || d.Provider != p.Provider || len(d.Ports) != 1 || d.Ports[0].LinkLayer != p.LinkLayer {
			t.Errorf("%s is %+v", p.Name, d)
		}
	}
	run := func(cmd *exec.Cmd) string {
		t.Helper()
		var problem bytes.Buffer
		cmd.Stderr = &problem
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, &problem)
		}
		return string(out)
	}
	if got := run(n.Command("ls", "/sys/class/infiniband", "/dev/infiniband")); !strings.Contains(got, "dev9\n") ||
		!strings.Contains(got, "uverbs9\n") {
		t.Errorf("the files are\n%s", got)
	}
	if got := run(n.Command("cat", "/sys/class/net/"+devices[3].Ports[0].Netdev+"/operstate")); got != "up\n" {
		t.Errorf("the interface of %s is %s", devices[3].Name, got)
	}
	n.Set("dev3", "state", 1)
	if got := run(n.Command("cat", "/sys/class/infiniband/dev3/ports/1/state")); got != "1: DOWN\n" {
		t.Errorf("the state is %s", got)
	}
	n.Remove("dev3")
	if got := run(n.Command("ls", "/sys/class/infiniband")); strings.Contains(got, "dev3") {
		t.Errorf("the devices are\n%s", got)
	}
}
