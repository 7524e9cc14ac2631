//go:build !linux

package memory

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// Map returns an error: RDMA needs Linux.
func Map(int) ([]byte, error) {
	return nil, fmt.Errorf("fabric/rdma: %w: RDMA between processes needs Linux", fabric.ErrNotSupported)
}

// Unmap does nothing: no memory was mapped.
func Unmap([]byte) {}
