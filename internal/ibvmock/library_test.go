//go:build linux && !static && (amd64 || arm64)

package ibvmock_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/ibvmock"
)

// TestProfiles adds a device of every profile.
func TestProfiles(t *testing.T) {
	lib := ibvmock.Load(t)
	for _, p := range ibvmock.Profiles() {
		lib.NewDevice(p.Name)
	}
	if got := lib.Calls("ibv_open_device"); got != 0 {
		t.Errorf("%d devices were opened, want none", got)
	}
}

// need returns the path of a program of the package ibverbs-utils. Without it the test is skipped; in CI it fails.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("needs %s: apt-get install ibverbs-utils", program)
	}
	t.Skipf("needs %s: apt-get install ibverbs-utils", program)
	return ""
}

// TestProgram runs a program of the package ibverbs-utils with the library: it was compiled for the real one.
func TestProgram(t *testing.T) {
	cmd := exec.Command(need(t, "ibv_devices"))
	cmd.Env = append(os.Environ(), ibvmock.Environment(ibvmock.Build(t), "", "mlx5_7=mlx5_ib")...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "mlx5_7") {
		t.Errorf("ibv_devices: %v\n%s", err, out)
	}
}
