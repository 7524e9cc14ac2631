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

// refusedQP is a device with a queue pair, which the device refuses once to destroy.
func refusedQP(t *testing.T, errno syscall.Errno) (*ibvmock.Library, *verbs.Context, *verbs.QP) {
	t.Helper()
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
	lib.Refuse("ibv_destroy_qp", 0, 1, errno)
	return lib, ctx, qp
}

// TestMockCloseNamesCause: the device refuses to destroy a queue pair, so what the queue pair uses is in use until the end. The
// error with which the device is closed is that of the queue pair. With EIO the device is taken for lost, until something is in
// use.
func TestMockCloseNamesCause(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EREMOTEIO, syscall.EIO} {
		_, ctx, qp := refusedQP(t, errno)
		if err := qp.Close(); errno != syscall.EIO && !errors.Is(err, errno) || errno == syscall.EIO && err != nil {
			t.Errorf("%v: the queue pair: %v", errno, err)
		}
		err := ctx.Close()
		if !errors.Is(err, errno) || errors.Is(err, verbs.ErrDeviceLost) || !strings.Contains(err.Error(), "ibv_destroy_qp") {
			t.Errorf("%v: the device: %v", errno, err)
		}
	}
}

// TestMockCloseAfterBusy: the device says once that a queue pair is in use, and destroys it later. Then it refuses to free
// something else: the error of closing the device does not name the queue pair.
func TestMockCloseAfterBusy(t *testing.T) {
	lib, ctx, qp := refusedQP(t, syscall.EBUSY)
	if err := qp.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("the queue pair: %v", err)
	}
	if err := qp.Close(); err != nil {
		t.Errorf("the queue pair, again: %v", err)
	}
	lib.Refuse("ibv_dealloc_pd", 0, 1, syscall.EBUSY)
	if err := ctx.Close(); !errors.Is(err, verbs.ErrBusy) || !strings.Contains(err.Error(), "ibv_dealloc_pd") {
		t.Errorf("the device: %v", err)
	}
}
