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

// refusedQP returns an open device and a queue pair that it refuses to destroy, once.
func refusedQP(t *testing.T, errno syscall.Errno) (*ibvmock.Library, *verbs.Context, *verbs.QP) {
	t.Helper()
	lib := ibvmock.Load(t)
	ctx := must(verbstest.OpenLibrary(lib.NewDevice("mlx5_roce")))(t)
	pd, cq := must(ctx.AllocPD())(t), must(ctx.CreateCQ(16, nil))(t)
	qp := must(pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq}))(t)
	lib.Refuse("ibv_destroy_qp", 0, 1, errno)
	return lib, ctx, qp
}

// TestMockCloseNamesCause: the device refuses to destroy a queue pair, so it cannot free what the queue pair uses either. Closing
// the device returns the error of the queue pair. EIO alone means that the device is lost. But a later call fails because
// something is in use, so the device is not lost, and EIO is returned too.
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
