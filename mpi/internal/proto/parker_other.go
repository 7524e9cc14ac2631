//go:build !linux

package proto

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

func newPollParker() (parker, error) {
	return nil, fmt.Errorf("%w: only on Linux can a goroutine sleep on a transport's descriptor", fabric.ErrNotSupported)
}

func yieldProcessor() {}
