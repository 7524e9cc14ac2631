//go:build linux && !static && (amd64 || arm64)

package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/doctor"
	"github.com/ibrun/ibrun/internal/ibvmock"
)

// TestDoctorWarnings: doctor finds what is wrong with the adapters of a node and with its settings, and writes a bundle of it.
func TestDoctorWarnings(t *testing.T) {
	t.Parallel()
	n := ibvmock.NewNetwork(t).NewNode("n0", "dev0=mlx5_ib_lmc,dev1=mlx5_roce@1")
	n.SetPKey("dev0", 0, 0x7fff)
	n.SetPKey("dev0", 1, 0x7ffe)
	n.Set("dev1", "mtu", 5)
	command := func(args ...string) string {
		cmd := n.Command("ibrun", append([]string{"doctor"}, args...)...)
		cmd.Env = append(cmd.Env, "IBRUN_RDMA_GID_INDEX=200", "IBRUN_RDMA_TIMEOUT=20", "MY_TOKEN=hunter2hunter2")
		out, err := cmd.Output()
		if len(out) == 0 {
			t.Fatalf("%v: %v", args, err) // the exit code depends on this machine too
		}
		return string(out)
	}
	var r doctor.Report
	if err := json.Unmarshal([]byte(command("--json")), &r); err != nil {
		t.Fatal(err)
	}
	for id, says := range map[string]string{
		"port.partition":   "dev0/1 is a limited member of all its partitions",
		"port.fabric":      "InfiniBand (dev0/1) and Ethernet (dev1/1)",
		"mtu.active":       "dev1/1 has an active MTU of 4096",
		"settings.gid":     "IBRUN_RDMA_GID_INDEX=200, and dev1/1 has no address",
		"settings.timeout": "a device sends again after 4.29497s",
	} {
		if !slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool {
			return f.ID == id && f.Severity == doctor.Warning && strings.Contains(f.Evidence, says) && f.Fix != ""
		}) {
			t.Errorf("no warning of %s with %q in\n%+v", id, says, r.Findings)
		}
	}
	name := filepath.Join(t.TempDir(), "b.tar.gz")
	if out := command("--bundle", name); !strings.Contains(out, "devices.json") || strings.Contains(out, "hunter2") {
		t.Errorf("doctor --bundle printed\n%s", out)
	}
	if out := command("--input", name); !strings.Contains(out, "dev0/1 is a limited member") {
		t.Errorf("the bundle does not have the devices:\n%s", out)
	}
}
