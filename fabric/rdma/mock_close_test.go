//go:build linux && !static && (amd64 || arm64)

package rdma

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/ibvmock"
)

// TestMockCloseRefused: the device refuses to destroy a queue pair. The error of Close names the call and the reason, also if
// that is EIO, with which lost devices answer: this one says later that something is in use.
func TestMockCloseRefused(t *testing.T) {
	lib := ibvmock.Load(t)
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.EIO} {
		d := openTransports(t, []*Transport{{Network: mockNetwork{lib.NewDevice("mlx5_roce")}}})[0]
		lib.Refuse("ibv_destroy_qp", 0, 1, errno)
		err := d.Close()
		if !errors.Is(err, fabric.ErrNotReleased) || !errors.Is(err, errno) || !strings.Contains(err.Error(), "ibv_destroy_qp") {
			t.Errorf("%v: Close returned %v", errno, err)
		}
	}
}
