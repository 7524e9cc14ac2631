//go:build linux && !static && (amd64 || arm64)

package verbstest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestMockOldLibrary runs the suite in a process whose library lacks the functions that libibverbs has not always had.
func TestMockOldLibrary(t *testing.T) {
	const variable, missing = "IBVMOCK_WITHOUT", "_ibv_query_gid_table,ibv_reg_mr_iova2,ibv_reg_dmabuf_mr"
	if os.Getenv(variable) != "" {
		lib := ibvmock.Load(t)
		gids, err := openMock(t, lib.NewDevice("mlx5_roce")).GIDs(1)
		if err != nil || len(gids) == 0 || lib.Calls("_ibv_query_gid_table") != 0 {
			t.Errorf("the addresses of the port are %v, %v", gids, err)
		}
		return
	}
	ibvmock.Load(t) // skips where the other process would
	cmd := exec.Command(os.Args[0], "-test.v", "-test.timeout=10m", "-test.run=^(TestMockOldLibrary|TestMock)$/^(mlx5_vf|irdma)$",
		"-test.skip=^TestMock$/./^Regions$") // it registers memory for other addresses, which needs ibv_reg_mr_iova2
	cmd.Env = append(os.Environ(), variable+"="+missing)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestMock/irdma") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestMock runs the suite through provider libibverbs on every kind of device that the mock has.
func TestMock(t *testing.T) {
	lib := ibvmock.Load(t)
	lib.Set("speed", 64) // connections without an answer fail soon
	for _, p := range ibvmock.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			dev := lib.NewDevice(p.Name)
			verbstest.Run(t, func(tb testing.TB) *verbs.Context {
				ctx, err := verbstest.OpenLibrary(dev)
				if err != nil {
					tb.Fatal(err)
				}
				return ctx
			})
		})
	}
}
