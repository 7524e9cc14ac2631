//go:build !unix

package fabrictest

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
)

// waitReadable is for transports that sleep on a descriptor.
func waitReadable(fd int, _ time.Duration) (bool, error) {
	return false, fmt.Errorf("%w: waiting for descriptor %d needs poll(2)", fabric.ErrNotSupported, fd)
}
