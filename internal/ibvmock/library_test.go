//go:build linux && !static && (amd64 || arm64)

package ibvmock_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/internal/needtest"
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

// TestProgram runs a program of the package ibverbs-utils with the library: it was compiled for the real one.
func TestProgram(t *testing.T) {
	cmd := exec.Command(needtest.Program(t, "ibv_devices", "ibverbs-utils"))
	cmd.Env = append(os.Environ(), ibvmock.Environment(ibvmock.Build(t), "", "mlx5_7=mlx5_ib")...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "mlx5_7") {
		t.Errorf("ibv_devices: %v\n%s", err, out)
	}
}
