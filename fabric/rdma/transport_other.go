//go:build !linux

package rdma

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
)

// sleeper stands for what this system does not have.
type sleeper struct{ bed int }

func errSystem() error {
	return fmt.Errorf("fabric/rdma: %w: RDMA between processes needs Linux", fabric.ErrNotSupported)
}

func newSleeper([]*rail) (*sleeper, error) { return nil, errSystem() }

func (*sleeper) set(_, _ time.Duration) error { return errSystem() }
func (*sleeper) wake() error                  { return errSystem() }
func (*sleeper) woken(*domain) error          { return errSystem() }
func (*sleeper) close() error                 { return nil }

func mapMemory(int) ([]byte, error) { return nil, errSystem() }
func unmapMemory([]byte)            {}
