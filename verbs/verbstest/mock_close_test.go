//go:build linux && !static && (amd64 || arm64)

package verbstest_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/ibvmock"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestMockCloseNamesCause: the device refuses to destroy a queue pair, so what the queue pair uses is in use until the end. The
// error with which the device is closed is that of the queue pair.
func TestMockCloseNamesCause(t *testing.T) {
	lib := ibvmock.Load(t)
	ctx, err := verbstest.OpenLibrary(lib.NewDevice("mlx5_roce"))
	if err != nil {
		t.Fatal(err)
	}
	pd, err := ctx.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := ctx.CreateCQ(16, nil)
	if err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	lib.Refuse("ibv_destroy_qp", 0, 1, syscall.EREMOTEIO)
	if err := qp.Close(); !errors.Is(err, syscall.EREMOTEIO) {
		t.Errorf("the queue pair: %v", err)
	}
	if err := ctx.Close(); !errors.Is(err, syscall.EREMOTEIO) || !strings.Contains(err.Error(), "ibv_destroy_qp") {
		t.Errorf("the device: %v", err)
	}
}
