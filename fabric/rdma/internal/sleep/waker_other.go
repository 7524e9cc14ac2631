//go:build !linux

package sleep

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// waker takes the place of the one for Linux.
type waker struct{}

func errSystem() error {
	return fmt.Errorf("fabric/rdma: %w: RDMA between processes needs Linux", fabric.ErrNotSupported)
}

func (*waker) open([]Rail) error                 { return errSystem() }
func (*waker) fd() int                           { return -1 }
func (*waker) setTimer(_, _ time.Duration) error { return errSystem() }
func (*waker) wake() error                       { return errSystem() }
func (*waker) drain() (uint32, error)            { return 0, errSystem() }
func (*waker) close() error                      { return nil }
func (*waker) ignore(*verbs.Channel)             {}
