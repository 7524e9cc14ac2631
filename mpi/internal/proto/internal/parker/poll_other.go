//go:build !linux

package parker

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// New returns an error.
func New() (Parker, error) {
	return nil, fmt.Errorf("%w: only on Linux can a goroutine sleep on a transport's descriptor", fabric.ErrNotSupported)
}
