//go:build !linux

package rdma

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
)

// waker takes the place of the one for Linux.
type waker struct{ epfd int }

func errSystem() error {
	return fmt.Errorf("fabric/rdma: %w: RDMA between processes needs Linux", fabric.ErrNotSupported)
}

func newWaker([]*rail) (*waker, error) { return nil, errSystem() }

func (*waker) setTimer(_, _ time.Duration) error { return errSystem() }
func (*waker) wake() error                       { return errSystem() }
func (*waker) drain(*domain) error               { return errSystem() }
func (*waker) close() error                      { return nil }
func (*waker) ignoreRail(*rail)                  {}
